"""dtc.torch.parallelize: a model and its plan as one program of the training step, run over a mesh."""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch.utils._pytree import tree_flatten, tree_leaves

from .. import command
from .. import compile as compile_program
from .._errors import UsageError
from ._backend import _decompositions, _seed
from ._graph import program_of
from ._placements import Activation, Plan, read_plan, sharding_text
from ._shard import shard

MESH = "mesh"


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


@contextlib.contextmanager
def _hooked(model: torch.nn.Module, activations: Sequence[Activation]) -> Iterator[None]:
    handles = []
    for a in activations:
        module = model.get_submodule(a.module)

        def before(_: Any, args: tuple, kwargs: dict, a: Activation = a) -> Any:
            for name, placement in a.keywords.items():
                if name in kwargs:
                    kwargs = {**kwargs, name: _annotated(kwargs[name], [placement], a.axis)}
            return _annotated(tuple(args), a.inputs, a.axis), kwargs

        def after(_: Any, args: Any, output: Any, a: Activation = a) -> Any:
            return _annotated(output, a.outputs, a.axis)

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _gather_at_use(graph: torch.fx.Graph, node: torch.fx.Node, text: str) -> None:
    """All uses read a copy that is not sharded over the data axes; its gradient is scattered back."""
    uses = list(node.users)
    with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
        whole = graph.call_function(torch.ops.dtc.shard.default, (node, text))
    whole.meta["val"] = node.meta["val"]
    for use in uses:
        use.replace_input_with(node, whole)


# --- one traced program ---


@dataclass
class _Step:
    """The joint program of one combination of input shapes."""

    executable: Any
    program: str  # as imported, with its annotations
    states: list[str]  # parameters and buffers that it takes
    mutated: list[str]  # buffers, in the order of the first results
    outputs: int
    gradients: list[str]  # the parameters of the last results


class _Wrapped(torch.nn.Module):
    """The model with its loss. Outputs are a tuple, the loss first."""

    def __init__(self, model: torch.nn.Module, loss: Optional[Callable[..., torch.Tensor]]):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any) -> tuple:
        if self.loss is None:
            out = self.model(*args)
            outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
            if not all(isinstance(each, torch.Tensor) for each in outputs):
                raise UsageError("the model must return its loss, or a flat tuple of tensors with the loss first")
            return (outputs[0], *[each.detach() for each in outputs[1:]])
        return (self.loss(self.model(*args[:-1]), args[-1]),)


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
        self._traced = (_Wrapped(model, loss),)  # in a tuple: not a submodule, whose parameters would be listed twice
        self._input_shardings = dict(inputs)
        self._options = dict(options)
        self._steps: dict[Any, _Step] = {}
        self._last: Optional[tuple[_Step, list[Any]]] = None

    # --- tracing ---

    def _input_text(self, position: int, value: torch.Tensor) -> str:
        given = self._input_shardings.get(position)
        if given is not None:
            return given
        dims: list[list[str]] = [[] for _ in range(value.dim())]
        if dims:
            dims[0] = list(self.plan.data)
        return sharding_text(dims)

    def _placement(self, graph: torch.fx.GraphModule, signature: Any) -> dict[str, Any]:
        """The shardings of arguments and results, by names; adds the gathers of weights to the graph."""
        inputs: dict[str, str] = {}
        outputs: dict[str, str] = {}
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        users = list(signature.user_inputs)
        by_parameter = {
            name: self.plan.parameters.get(name.removeprefix("model."), [[] for _ in p.shape])
            for name, p in self._traced[0].named_parameters(remove_duplicate=False)
        }
        for node in nodes:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            if node.name in signature.inputs_to_parameters:
                dims = by_parameter[signature.inputs_to_parameters[node.name]]
                inputs[node.name] = sharding_text(dims)
                at_use = [[axis for axis in d if axis not in self.plan.data] for d in dims]
                if at_use != dims:
                    _gather_at_use(graph.graph, node, sharding_text(at_use))
            elif node.name in users:
                inputs[node.name] = self._input_text(users.index(node.name), value)
            else:
                inputs[node.name] = sharding_text([[] for _ in value.shape])
        for name, parameter in signature.backward_signature.gradients_to_parameters.items():
            outputs[name] = sharding_text(by_parameter[parameter])
        graph.recompile()
        axes = [[axis, size] for axis, size in self.plan.axes.items()]
        return {"mesh": {"name": MESH, "axes": axes}, "inputs": inputs, "outputs": outputs}

    def _trace(self, args: Sequence[Any]) -> _Step:
        from torch._functorch.aot_autograd import aot_export_module

        wrapped = self._traced[0]
        with _hooked(self.module, self.plan.activations), torch.enable_grad():
            graph, signature = aot_export_module(
                wrapped, tuple(args), trace_joint=True, output_loss_index=0, decompositions=_decompositions()
            )
        placement = self._placement(graph, signature)
        with tempfile.NamedTemporaryFile(prefix="dtc-", suffix=".pt2") as file:
            file.write(program_of(graph, placement))
            file.flush()
            text = command(["import", file.name])
        executable = compile_program(text, results="torch", **self._options)
        gradients = signature.backward_signature.gradients_to_parameters
        return _Step(
            executable,
            text,
            [*signature.parameters, *signature.buffers],
            list(signature.buffers_to_mutate.values()),
            len(signature.user_outputs),
            [gradients[n.name] for n in graph.graph.output_node().args[0] if getattr(n, "name", None) in gradients],
        )

    def _step(self, args: Sequence[Any]) -> _Step:
        leaves, structure = tree_flatten(tuple(args))
        for position, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                raise UsageError(f"input {position}: expected a tensor, but got {type(leaf).__name__}")
            if leaf.requires_grad:
                raise UsageError(f"input {position} requires a gradient; only parameters get one")
        for position in self._input_shardings:
            if position not in range(len(leaves)):
                raise UsageError(f"inputs={{{position!r}: ...}}: the call has {len(leaves)} inputs, counted from 0")
        wrapped = self._traced[0]
        key = (
            str(structure),
            torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
            *[(tuple(leaf.shape), leaf.dtype) for leaf in leaves],
            *[module.training for module in wrapped.modules()],
            *[p.requires_grad for p in wrapped.parameters()],
        )
        if key not in self._steps:
            self._steps[key] = self._trace(args)
        return self._steps[key]

    # --- calls ---

    def forward(self, *args: Any) -> Any:
        """The loss, and the model's other outputs, which carry no gradient."""
        step = self._step(args)
        wrapped = self._traced[0]
        states = dict(wrapped.named_parameters(remove_duplicate=False))
        states.update(wrapped.named_buffers(remove_duplicate=False))
        values = [states[name].detach() for name in step.states]
        values += [leaf.detach().contiguous() for leaf in tree_leaves(args)]
        if step.executable.num_arguments > len(values):
            values.append(_seed())
        self._last = (step, values)
        results = step.executable(*values)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        with torch.no_grad():
            for name, value in zip(step.mutated, results):
                states[name].copy_(value)
        outputs = results[len(step.mutated) : len(step.mutated) + step.outputs]
        gradients = results[len(step.mutated) + step.outputs :]
        if torch.is_grad_enabled():
            parameters = [states[name] for name in step.gradients]
            outputs[0] = _Gradients.apply(outputs[0], len(gradients), *gradients, *parameters)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

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
        return self._ran()[0].program

    def explain(self, value: str = "") -> Any:
        """Every collective, why it is needed and what it costs; or why a value is sharded as it is."""
        return self.executable.explain(value)

    def collectives(self) -> list[dict[str, Any]]:
        """The same collectives as data: kind, axes, bytes."""
        return json.loads(command(["explain", "-", "--json"], input=self.text()))["collectives"]

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
    inputs: Optional[Mapping[int, str]] = None,
    **options: Any,
) -> Parallel:
    """The model as a callable whose training step is one program, forward and backward, over a mesh of devices.

    model: the plain model. Its parameters stay whole tensors, which any optimizer updates.
    plan: a function that parallelizes the model that it is given (a copy) with fully_shard, parallelize_module or
        distribute_tensor; a model that is parallelized already; parallel styles by module, as parallelize_module
        takes them; or placements by parameter, {"up.weight": [Replicate(), Shard(0)]}.
    mesh: the root DeviceMesh; by default that of the plan's parameters. All of its dims must have names.
    loss: loss(output, target), which takes the last argument of a call. Without it the model returns the loss,
        alone or as the first of its outputs.
    data: the mesh axes that shard dim 0 of every input; by default those of fully_shard and those that place no
        parameter.
    inputs: other shardings of inputs, by position: {1: "{_, dp}"}.
    options: those of dtc.compile, such as backend="cuda".
    """
    options.pop("results", None)
    return Parallel(model, read_plan(model, plan, mesh, data), loss, inputs or {}, options)


__all__ = ["Parallel", "parallelize"]
