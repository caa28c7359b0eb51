"""dtc.torch.parallelize: a model and its plan as one program of the training step, run over a mesh."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map, tree_unflatten

from .. import command
from .. import compile as compile_program
from .._errors import UsageError
from .._executable import DEFAULT_CACHE_SIZE
from ._backend import _seed
from ._graph import program_of
from ._joint import Joint, joint_graph, rename, replace_by_one, unique_output
from ._placements import Activation, Cast, Plan, Precision, read_plan, sharding_text
from ._reshard import gather_again
from ._shard import shard

MESH = "mesh"
TOKEN = None  # the source of an argument that orders effects, and has no value
_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)


# --- annotations ---


def _activation_text(placement: Any, axis: str, rank: int) -> Optional[str]:
    """The other dims stay open. Replicated means: also after propagation."""
    if placement is None or type(placement).__name__ not in ("Shard", "Replicate"):
        return None
    dims = ["?"] * rank
    if placement.is_replicate():
        return "{" + ", ".join(dims) + f" | rep({axis})}}"
    if not -rank <= placement.dim < rank:
        return None
    dims[placement.dim] = axis
    return "{" + ", ".join(dims) + "}"


def _annotated(value: Any, placements: Sequence[Any], axis: str) -> Any:
    """The tensors of a module's inputs or outputs, each with its placement."""
    if isinstance(value, torch.Tensor):
        text = _activation_text(placements[0] if placements else None, axis, value.dim())
        return value if text is None or value.dim() == 0 else shard(value, text)
    if isinstance(value, (tuple, list)):
        each = [_annotated(v, placements[i : i + 1], axis) for i, v in enumerate(value)]
        return type(value)(each) if not hasattr(value, "_fields") else type(value)(*each)
    return value


def _cast(value: Any, dtype: Optional[torch.dtype]) -> Any:
    def one(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return value if dtype is None else tree_map(one, value)


@contextlib.contextmanager
def _hooked(model: torch.nn.Module, plan: Plan) -> Iterator[None]:
    """While it is active, modules convert and annotate what they take and return, as the plan says."""
    handles = []

    def hook(path: str, before: Callable[[tuple, dict], Any], after: Callable[[Any], Any]) -> None:
        module = model.get_submodule(path)
        handles.append(module.register_forward_pre_hook(lambda _, args, kwargs: before(args, kwargs), with_kwargs=True))
        handles.append(module.register_forward_hook(lambda _, args, output: after(output)))

    def converted(c: Cast) -> None:
        hook(c.module, lambda args, kwargs: _cast((args, kwargs), c.inputs), lambda output: output)

    def annotated(a: Activation) -> None:
        def before(args: tuple, kwargs: dict) -> Any:
            named = {k: _annotated(v, [a.keywords[k]], a.axis) if k in a.keywords else v for k, v in kwargs.items()}
            return _annotated(tuple(args), a.inputs, a.axis), named

        hook(a.module, before, lambda output: _annotated(output, a.outputs, a.axis))

    for c in plan.casts:
        converted(c)
    for a in plan.activations:
        annotated(a)
    for c in plan.casts:
        handles.append(
            model.get_submodule(c.module).register_forward_hook(
                lambda _, args, output, dtype=c.outputs: _cast(output, dtype)
            )
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _AtUse(torch.autograd.Function):
    """A parameter as it is used: in the plan's dtype, gathered along the data axes. Its gradient is scattered back."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, precision: Precision, whole: str, own: str, data: Sequence[str]
    ) -> torch.Tensor:
        ctx.precision, ctx.own, ctx.data, ctx.dtype = precision, own, data, x.dtype
        return shard(_cast(x, precision.use), whole)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple:
        reduced_in = ctx.precision.reduce
        if reduced_in and reduced_in.itemsize > dy.dtype.itemsize and ctx.data and dy.dim():
            # Still a partial sum: otherwise dtc reduces it before the conversion, as that transfers less.
            dims = ", ".join("?" * dy.dim())
            dy = shard(dy.to(reduced_in), f"{{{dims} | sum({', '.join(ctx.data)})}}")
        return shard(dy, ctx.own).to(ctx.dtype), None, None, None, None


def _parameters_at_use(model: torch.nn.Module, plan: Plan) -> dict[str, torch.Tensor]:
    """The parameters that are not used as they are kept."""
    out: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        dims = plan.parameters[name]
        whole = [[axis for axis in d if axis not in plan.data] for d in dims]
        precision = plan.precision.get(name, Precision(None, None))
        if whole != dims or precision.use or precision.reduce:
            out[name] = _AtUse.apply(parameter, precision, sharding_text(whole), sharding_text(dims), plan.data)
    return out


# --- calls ---


def _loss_first(output: Any) -> tuple[list[Any], int]:
    """The leaves of a model's output, and which of them is the loss: the one of that name, or the first tensor."""
    leaves, _ = tree_flatten(output)
    named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and (named is None or leaf is named):
            return leaves, position
    raise UsageError("the model must return its loss, alone or as the first of its outputs")


class _Wrapped(torch.nn.Module):
    """The model with its loss, as a function of tensors that returns tensors, the loss first."""

    def __init__(self, model: torch.nn.Module, loss: Optional[Callable[..., torch.Tensor]], plan: Plan):
        super().__init__()
        self.model = model
        self.loss = loss
        self.plan = plan
        self.call: Optional[_Call] = None  # the call that is traced
        self.output: Optional[_Output] = None  # what it returned

    def forward(self, *tensors: torch.Tensor) -> tuple:
        assert self.call is not None
        args, kwargs = self.call.arguments(tensors)
        at_use = _parameters_at_use(self.model, self.plan)
        if self.loss is None:
            output = torch.func.functional_call(self.model, at_use, args, kwargs, tie_weights=False)
        else:
            made = torch.func.functional_call(self.model, at_use, args[:-1], kwargs, tie_weights=False)
            output = self.loss(made, args[-1])
        leaves, loss = _loss_first(output)
        if leaves[loss].numel() != 1:
            raise UsageError(f"the loss has the shape {list(leaves[loss].shape)}, but must be one number")
        tensor_at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and i != loss]
        constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        named = [keystr(path).lstrip(".") for path, _ in tree_flatten_with_path(output)[0]]
        names = ["loss", *[named[i] if len(leaves) > 1 else "output" for i in tensor_at]]
        self.output = _Output(tree_flatten(output)[1], [loss, *tensor_at], names, constants)
        return (leaves[loss], *[leaves[i].detach() for i in tensor_at])


@dataclass
class _Output:
    """The structure of a model's output."""

    structure: Any
    positions: list[int]  # of the program's outputs among the leaves
    names: list[str]  # of the program's outputs
    constants: list[Any]  # the leaves that are not tensors

    def of(self, tensors: Sequence[torch.Tensor]) -> Any:
        leaves = list(self.constants)
        for position, tensor in zip(self.positions, tensors):
            leaves[position] = tensor
        return tree_unflatten(leaves, self.structure)


def _missing(model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> Optional[str]:
    """Why forward cannot take these arguments, as Python says it: "a required argument: 'x'"."""
    try:
        inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        return str(error).removeprefix("missing ") if str(error).startswith("missing ") else None
    except ValueError:
        pass  # no signature
    return None


class _Call:
    """The arguments of one call: tensors, which the program takes, and other values, which are part of it."""

    def __init__(self, wrapped: _Wrapped, args: tuple, kwargs: dict[str, Any]):
        self.leaves, self._structure = tree_flatten((args, kwargs))
        self.tensor_at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors: list[torch.Tensor] = [self.leaves[i] for i in self.tensor_at]
        self.names = self._names(wrapped, args, kwargs)
        for name, leaf in zip(self.names, self.leaves):
            if not isinstance(leaf, (torch.Tensor, *_PLAIN)):
                raise UsageError(f"input '{name}': expected a tensor or a plain value, but got {type(leaf).__name__}")
        if wrapped.loss is not None:
            missing = _missing(wrapped.model, args[:-1], kwargs) if args else None
            if not args or missing:
                raise UsageError(
                    "the last positional argument of a call is the target, which loss= takes"
                    + (f"; forward then lacks {missing}" if missing else "")
                )

    @staticmethod
    def _names(wrapped: _Wrapped, args: tuple, kwargs: dict[str, Any]) -> list[str]:
        """Of the leaves: of the parameters of forward, with what leads to the leaf; "target" for the loss."""
        given = args[:-1] if wrapped.loss is not None else args
        try:
            positional = [
                p.name
                for p in inspect.signature(wrapped.model.forward).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
        except (TypeError, ValueError):
            positional = []
        positional = positional[: len(given)] + [f"input_{i}" for i in range(len(positional), len(given))]
        tree = (*zip(positional, given), *([("target", args[-1])] if wrapped.loss is not None and args else []))
        out = []
        for name, value in (*tree, *kwargs.items()):
            out += [name + keystr(path) for path, _ in tree_flatten_with_path(value)[0]]
        return out

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
        leaves = list(self.leaves)
        for position, tensor in zip(self.tensor_at, tensors):
            leaves[position] = tensor
        return tree_unflatten(leaves, self._structure)

    @property
    def tensor_names(self) -> list[str]:
        return [self.names[i] for i in self.tensor_at]

    @property
    def key(self) -> tuple:
        """Calls of the same key run the same program."""
        return (
            str(self._structure),
            *[(tuple(x.shape), x.dtype, x.requires_grad) if isinstance(x, torch.Tensor) else repr(x) for x in self.leaves],
        )


# --- one traced program ---


@dataclass
class _Step:
    """The joint program of one combination of input shapes."""

    executable: Any
    program: bytes
    arguments: list[Any]  # the name of a parameter or buffer, the position of a tensor of the call, or a tensor
    mutated: list[Any]  # the arguments whose new values are the first results
    output: _Output
    gradients: list[Any]  # the arguments whose gradients are the last results


class _Gradients(torch.autograd.Function):
    """The loss with gradients that were computed along with it."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, count: int, *rest: torch.Tensor) -> torch.Tensor:
        ctx.gradients = rest[:count]
        return loss.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple:
        return (None, None, *[None] * len(ctx.gradients), *[g * upstream for g in ctx.gradients])


class _Placing:
    """Names and places the arguments and results of a joint graph."""

    def __init__(self, joint: Joint, wrapped: _Wrapped, call: _Call, input_text: Callable[[int, torch.Tensor], str]):
        self.joint = joint
        self.wrapped = wrapped
        self.plan = wrapped.plan
        self.call = call
        self._input_text = input_text
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.names: dict[str, str] = {}  # the user's, of inputs and outputs

    def source(self, descriptor: Any) -> Any:
        """The name of a parameter or buffer, the position of a tensor of the call, or TOKEN."""
        if isinstance(target := getattr(descriptor, "target", None), str):
            return target
        if type(descriptor).__name__ == "PlainAOTInput":
            return descriptor.idx
        if "Token" in type(descriptor).__name__:
            return TOKEN
        raise UsageError(f"dtc.torch.parallelize does not support what PyTorch traced: {descriptor.expr()}")

    def _name(self, source: Any) -> str:
        if source is TOKEN:
            return "token"
        return self.call.tensor_names[source] if isinstance(source, int) else source.removeprefix("model.")

    def _named(self, node: torch.fx.Node, name: str) -> None:
        if node.name != name:
            self.names[node.name] = name

    def _text(self, source: Any, value: torch.Tensor) -> str:
        if isinstance(source, int):
            return self._input_text(source, value)
        if source is TOKEN:
            return sharding_text([[] for _ in value.shape])
        dims = self.plan.parameters.get(source.removeprefix("model."), [[] for _ in value.shape])
        return sharding_text(dims)

    def gather_again(self) -> None:
        """fully_shard(reshard_after_forward=True): the backward pass gathers weights again."""
        nodes = {self.source(d): node for node, d in self.joint.inputs if hasattr(d, "target")}
        freed = [node for name, node in nodes.items() if str(name).removeprefix("model.") in self.plan.freed]
        gather_again(self.joint, freed)

    def arguments(self) -> list[Any]:
        out = []
        for node, descriptor in self.joint.inputs:
            if type(descriptor).__name__ == "TangentAOTInput":
                replace_by_one(self.joint.graph.graph, node)
                continue
            source = self.source(descriptor)
            rename(node, self._name(source))
            self.inputs[node.name] = self._text(source, node.meta["val"])
            self._named(node, self._name(source))
            out.append(source)
        for node, tensor in self.joint.held:
            rename(node, "constant")
            self.inputs[node.name] = sharding_text([[] for _ in tensor.shape])
            out.append(tensor)
        return out

    def results(self) -> tuple[list[Any], list[Any]]:
        """Orders the results: new values of arguments, outputs, gradients. Returns whose the first and last are."""
        graph = self.joint.graph.graph
        groups: dict[str, list[tuple[torch.fx.Node, Any]]] = {"mutated_input": [], "idx": [], "grad_of": []}
        for node, descriptor in self.joint.outputs:
            if "Token" in type(descriptor).__name__:
                continue
            kind = next((k for k in groups if hasattr(descriptor, k)), None)
            if kind is None or "Metadata" in type(descriptor).__name__:
                raise UsageError(f"dtc.torch.parallelize does not support what PyTorch traced: {descriptor.expr()}")
            groups[kind].append((node, descriptor))
        names = {"mutated_input": "new_", "grad_of": "grad_"}
        for kind, prefix in names.items():
            for i, (node, descriptor) in enumerate(groups[kind]):
                source = self.source(getattr(descriptor, kind))
                text = self._text(source, node.meta["val"])
                made = unique_output(graph, node, text)
                rename(made, prefix + self._name(source))
                self.outputs[made.name] = text
                self._named(made, self._name(source) + (".grad" if kind == "grad_of" else ""))
                groups[kind][i] = (made, descriptor)
        assert self.wrapped.output is not None
        renamed: set[torch.fx.Node] = set()  # of outputs that are one value, the first names it
        for (node, _), name in zip(groups["idx"], self.wrapped.output.names):
            if node.op != "placeholder" and node not in renamed:
                rename(node, name if not re.match(r"\W*\d", name) else f"output_{name}")
                renamed.add(node)
        self.joint.set_outputs([each for group in groups.values() for each in group])
        whose = [[self.source(getattr(d, kind)) for _, d in groups[kind]] for kind in names]
        return whose[0], whose[1]

    def placement(self) -> dict[str, Any]:
        axes = [[axis, size] for axis, size in self.plan.axes.items()]
        return {"mesh": {"name": MESH, "axes": axes}, "inputs": self.inputs, "outputs": self.outputs, "names": self.names}


class Parallel(torch.nn.Module):
    """A model whose training step dtc runs over a mesh: see dtc.torch.parallelize."""

    def __init__(
        self,
        model: torch.nn.Module,
        plan: Plan,
        loss: Optional[Callable[..., torch.Tensor]],
        inputs: Mapping[Union[int, str], str],
        options: Mapping[str, Any],
    ):
        super().__init__()
        self.module = model
        self.plan = plan
        self._traced = (_Wrapped(model, loss, plan),)  # in a tuple: no submodule, whose parameters would be listed twice
        self._input_shardings = dict(inputs)
        self._options = dict(options)
        self._steps: OrderedDict[Any, _Step] = OrderedDict()
        self._last: Optional[tuple[_Step, list[Any]]] = None

    # --- tracing ---

    def _check_inputs(self, call: _Call) -> None:
        for key, text in self._input_shardings.items():
            if key not in call.tensor_names and key not in range(len(call.tensors)):
                raise UsageError(f"inputs={{{key!r}: ...}}: the call has the inputs {', '.join(call.tensor_names)}")
            at = key if isinstance(key, int) else call.tensor_names.index(key)
            rank = call.tensors[at].dim()
            given = len(re.findall(r",", re.sub(r"\([^)]*\)|\|.*", "", text))) + 1 if rank else 0
            if rank and given != rank:
                raise UsageError(f"inputs={{{key!r}: {text!r}}}: it has {given} dims, but the tensor has {rank}")
            for word in re.findall(r"[A-Za-z]\w*", text):
                if word not in self.plan.axes and word != "rep":
                    raise UsageError(f"inputs={{{key!r}: {text!r}}}: the mesh has the axes {', '.join(self.plan.axes)}")

    def _input_text(self, call: _Call, position: int, value: torch.Tensor) -> str:
        for key in (call.tensor_names[position], position):
            if key in self._input_shardings:
                return self._input_shardings[key]
        dims: list[list[str]] = [[] for _ in range(value.dim())]
        if dims:
            dims[0] = list(self.plan.data)
        return sharding_text(dims)

    def _trace(self, call: _Call) -> _Step:
        wrapped = self._traced[0]
        wrapped.call = call
        # Tensors of closures are not inputs.
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        examples = [
            mode.from_tensor(x.detach().requires_grad_(x.requires_grad and torch.is_grad_enabled()))
            for x in call.tensors
        ]
        try:
            # Libraries ask whether they are traced, and then do not look at numbers.
            with (
                torch.compiler._compile_session_context(),
                _hooked(self.module, self.plan),
                joint_graph(wrapped, self.module, examples) as joint,
            ):
                placing = _Placing(joint, wrapped, call, lambda i, value: self._input_text(call, i, value))
                placing.gather_again()
                arguments = placing.arguments()
                mutated, gradients = placing.results()
                joint.graph.recompile()
                program = program_of(joint.graph, placing.placement())
        finally:
            wrapped.call = None
        assert wrapped.output is not None
        executable = compile_program(program, name="<torch>", results="torch", **self._options)
        return _Step(executable, program, arguments, mutated, wrapped.output, gradients)

    def _step(self, call: _Call) -> _Step:
        self._check_inputs(call)
        wrapped = self._traced[0]
        key = (
            call.key,
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
            *[module.training for module in wrapped.modules()],
            *[p.requires_grad for p in wrapped.parameters()],
        )
        if key not in self._steps:
            self._steps[key] = self._trace(call)
            if len(self._steps) > DEFAULT_CACHE_SIZE:
                self._steps.popitem(last=False)
        self._steps.move_to_end(key)
        return self._steps[key]

    # --- calls ---

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns: the loss, and other outputs, which carry no gradient."""
        wrapped = self._traced[0]
        call = _Call(wrapped, args, kwargs)
        step = self._step(call)
        owners: dict[Any, torch.Tensor] = dict(enumerate(call.tensors))
        owners.update(wrapped.named_parameters(remove_duplicate=False))
        owners.update(wrapped.named_buffers(remove_duplicate=False))
        owners[TOKEN] = torch.empty(0)
        given = [source if isinstance(source, torch.Tensor) else owners[source] for source in step.arguments]
        values = [tensor.detach().contiguous() for tensor in given]
        if step.executable.num_arguments > len(values):
            values.append(_seed())
        self._last = (step, values)
        results = step.executable(*values)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        with torch.no_grad():
            for source, value in zip(step.mutated, results):
                owners[source].copy_(value)
        end = len(results) - len(step.gradients)
        outputs = results[len(step.mutated) : end]
        if step.gradients:
            receivers = [owners[source] for source in step.gradients]
            outputs[0] = _Gradients.apply(outputs[0], len(receivers), *results[end:], *receivers)
        return step.output.of(outputs)

    # --- reports: of the step that ran last ---

    def _ran(self) -> tuple[_Step, list[Any]]:
        if self._last is None:
            raise UsageError("the program is compiled at the first call: call it with a batch")
        return self._last

    @property
    def executable(self) -> Any:
        return self._ran()[0].executable

    def text(self) -> str:
        """The traced program, forward and backward, with its annotations."""
        return command(["import", "-"], input=self._ran()[0].program)

    def explain(self, value: str = "") -> Any:
        """Every collective, why it is needed and what it costs; or why a value is sharded as it is."""
        return self.executable.explain(value)

    def collectives(self) -> list[dict[str, Any]]:
        """The same collectives as data: kind, axes, bytes."""
        return json.loads(command(["explain", "-", "--json"], input=self._ran()[0].program))["collectives"]

    def stats(self) -> Any:
        """Times, bytes and throughput of each step of the program."""
        step, values = self._ran()
        return step.executable.stats(*values)

    def check(self) -> Any:
        """Runs the last batch again, and compares all results with the unsharded program; an error if they differ."""
        step, values = self._ran()
        return step.executable._source.run_report(step.executable, values, "--check")


def parallelize(
    model: torch.nn.Module,
    plan: Any,
    *,
    mesh: Any = None,
    loss: Optional[Callable[..., torch.Tensor]] = None,
    data: Union[None, str, Sequence[str]] = None,
    inputs: Optional[Mapping[Union[int, str], str]] = None,
    **options: Any,
) -> Parallel:
    """The model as a callable whose training step is one program, forward and backward, over a mesh of devices.

    model: the plain model. Its parameters stay whole tensors, which any optimizer updates.
    plan: a function that parallelizes the model that it is given (a copy) with fully_shard, parallelize_module or
        distribute_tensor; a model that is parallelized already; parallel styles by module, as parallelize_module
        takes them; or placements by parameter, {"up.weight": [Replicate(), Shard(0)]}.
    mesh: the root DeviceMesh; by default that of the plan's parameters. All of its dims must have names.
    loss: loss(output, target), which takes the last positional argument of a call. Without it the model returns the
        loss, alone, as the first of its outputs, or under the name "loss".
    data: the mesh axes that shard dim 0 of every input; by default those of fully_shard and those that place no
        parameter.
    inputs: other shardings of inputs, by name or position: {"mask": "{_, dp}"}.
    options: those of dtc.compile, such as backend="cuda".
    """
    options.pop("results", None)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"dtc.torch.parallelize takes a torch.nn.Module, not {type(model).__name__}")
    if any(hasattr(p, "placements") for p in model.parameters()):
        raise UsageError("the model is parallelized already: give the plain model, and the parallelized one as the plan")
    return Parallel(model, read_plan(model, plan, mesh, data), loss, inputs or {}, options)


__all__ = ["Parallel", "parallelize"]
