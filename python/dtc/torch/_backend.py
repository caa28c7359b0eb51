"""The backend of torch.compile."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import operator
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import torch

from .. import compile as compile_program
from .._errors import UsageError
from ._border import Lifted, Results, outputs_of, permute_arguments
from ._graph import program_of
from ._higher import expanded

# Attention stays one op, which dtc fuses; its gradient needs PyTorch's own forward and backward ops. The others are
# ops that dtc's table has as a whole: the fewer ops a graph has, the faster it is captured.
_KEPT = (
    "aten._scaled_dot_product",
    "aten._log_softmax_backward_data",
    "aten._softmax_backward_data",
    "aten.detach",  # without it, PyTorch 2.13 takes the saved results of a scan's body for aliases of its results
    "aten.elu_backward",
    "aten.embedding_dense_backward",
    "aten.gelu_backward",
    "aten.hardsigmoid_backward",
    "aten.hardswish_backward",
    "aten.hardtanh_backward",
    "aten.leaky_relu_backward",
    "aten.logit_backward",
    "aten.native_batch_norm_backward",
    "aten.native_group_norm_backward",
    "aten.native_layer_norm_backward",
    "aten.nll_loss_backward",
    "aten.nll_loss2d_backward",
    "aten.select_backward",
    "aten.sigmoid_backward",
    "aten.silu_backward",
    "aten.slice_backward",
    "aten.smooth_l1_loss_backward",
    "aten.softplus_backward",
    "aten.tanh_backward",
    "aten.threshold_backward",
)


def _seed() -> torch.Tensor:
    """For programs that draw random numbers: follows torch.manual_seed."""
    return torch.randint(0, 2**62, (2,)).to(torch.uint64)


class _Graph:
    """One captured graph. With symbolic sizes, it is compiled once per combination of sizes in use."""

    def __init__(self, graph: torch.fx.GraphModule, options: Mapping[str, Any], frozen: Sequence[int] = ()):
        """`frozen`: positions of inputs that are the same tensors in most calls."""
        self._options = {"threads": torch.get_num_threads(), **options}
        graph = _copy_of(graph)
        expanded(graph, _decompositions)
        self._held = Lifted(graph).tensors
        self._results = Results(graph)
        self._orders = permute_arguments(graph)
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._tensors = [i for i, node in enumerate(inputs) if isinstance(node.meta.get("val"), torch.Tensor)]
        self._moved = [(i, self._orders[at]) for i, at in enumerate(self._tensors) if self._orders[at]]
        self._sizes = _size_sources(inputs)
        self._frozen = _Frozen(i for i, at in enumerate(self._tensors) if at in frozen and not self._sizes)
        placement = {"frozen": [inputs[self._tensors[i]].name for i in self._frozen.positions]}
        self._program = program_of(graph, placement) if outputs_of(graph) else None
        self._compiled: dict[tuple[int, ...], Any] = {}
        self._static = None
        if self._program is not None and not self._sizes:
            self._static = self._compile(())  # errors are those of torch.compile

    def _compile(self, sizes: tuple[int, ...]) -> Any:
        dims = {source.name: size for source, size in zip(self._sizes, sizes)}
        return compile_program(self._program, **{"name": "<torch>", **self._options}, dims=dims, results="torch")

    def _executable(self, arguments: Sequence[Any]) -> Any:
        if self._static is not None:
            return self._static
        sizes: tuple[int, ...] = ()
        for source in self._sizes:
            sizes += (source.size_in(arguments, sizes),)
        if sizes not in self._compiled:
            self._compiled[sizes] = self._compile(sizes)
        return self._compiled[sizes]

    def __call__(self, *arguments: Any) -> list[Any]:
        arguments = (*arguments, *self._held)
        if self._program is None:
            return self._results(arguments, ())
        # A token, which orders effects, has no value.
        tensors = [torch.empty(0) if arguments[i] is None else arguments[i] for i in self._tensors]
        given = list(tensors) if self._frozen.positions else tensors
        for i, order in self._moved:
            tensors[i] = tensors[i].permute(order)
        for i, tensor in enumerate(tensors):
            if tensor.is_neg() or tensor.is_conj():  # a flag that only PyTorch knows
                tensors[i] = tensor.resolve_conj().resolve_neg()
        executable = self._executable(arguments)
        if executable.num_arguments > len(tensors):
            tensors.append(_seed())
        if self._frozen.positions:
            return self._results(arguments, self._frozen.run(executable, tensors, given))
        results = executable(*tensors)
        return self._results(arguments, results if isinstance(results, tuple) else (results,))


class _Frozen:
    """Arguments that the executable keeps, and what it computed from them, until another tensor is given or PyTorch has
    written to it."""

    def __init__(self, positions: Iterable[int]):
        self.positions = list(positions)
        self._kept: dict[int, tuple[torch.Tensor, int]] = {}  # by position: the tensor, and the version of its value

    def run(self, executable: Any, tensors: list[Any], given: Sequence[torch.Tensor]) -> tuple:
        """`given`: the tensors before they were permuted or resolved."""
        keep = []
        kept = {}
        for i in self.positions:
            tensor = given[i]
            if tensor.is_inference():  # PyTorch does not count its versions
                continue
            before = self._kept.get(i)
            if before is not None and before[0] is tensor and before[1] == tensor._version:
                tensors[i] = None
            else:
                keep.append(i)
            kept[i] = (tensor, tensor._version)
        self._kept = {}  # a run that fails keeps nothing
        results = executable._run_kept(tensors, keep)
        self._kept = kept
        return results


def _copy_of(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Of the graph only: AOTAutograd keeps using its own."""
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    return torch.fx.GraphModule(graph, copied)


@dataclasses.dataclass
class _SizeSource:
    """Where a symbolic size is found: an input, and its dim unless the input is the size."""

    name: str
    position: int
    dim: Optional[int]
    solution: Optional[Callable[..., Any]] = None  # of the found number and the sizes before; None: that number

    def size_in(self, arguments: Sequence[Any], before: Sequence[int]) -> int:
        value = arguments[self.position]
        number = int(value if self.dim is None else value.shape[self.dim])
        return number if self.solution is None else round(self.solution(number, *before))


def _size_sources(inputs: Sequence[torch.fx.Node]) -> list[_SizeSource]:
    """Where each symbolic size is found.

    A backward pass may have only tensors with sizes such as 3 * s - 3, which is solved for s. An input that nothing
    reads is a symbolic stride, on which the program does not depend.
    """
    places = []
    for position, node in enumerate(inputs):
        value = node.meta.get("val")
        dims = [(None, value)] if isinstance(value, torch.SymInt) and node.users else []
        dims += list(enumerate(value.shape)) if isinstance(value, torch.Tensor) else []
        places += [(position, dim, size.node.expr) for dim, size in dims if isinstance(size, torch.SymInt)]
    found: dict[Any, _SizeSource] = {}
    for position, dim, expression in places:
        if expression.is_Symbol:
            found.setdefault(expression, _SizeSource(str(expression), position, dim))
    solved = True
    while solved:
        solved = False
        for position, dim, expression in places:
            unknown = expression.free_symbols - found.keys()
            solution = _solution(expression, unknown.pop(), list(found)) if len(unknown) == 1 else None
            if solution:
                symbol, function = solution
                found[symbol] = _SizeSource(str(symbol), position, dim, function)
                solved = True
    return list(found.values())


def _solution(expression: Any, symbol: Any, known: Sequence[Any]) -> Optional[tuple[Any, Callable[..., Any]]]:
    """The symbol as a function of the expression's value and the known symbols; None: not unique, or not known."""
    import sympy

    number = sympy.Dummy("number", integer=True)
    try:
        solutions = sympy.solve(expression - number, symbol, check=False)
    except NotImplementedError:
        return None
    if len(solutions) != 1:
        return None
    return symbol, sympy.lambdify([number, *known], solutions[0], modules="math")


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any] = (),
    options: Optional[Mapping[str, Any]] = None,
) -> Callable[..., list[Any]]:
    """A graph of ATen ops, as AOTAutograd passes it on, as a function of its inputs. `options`: of dtc.compile."""
    from functorch.compile import make_boxed_func

    return make_boxed_func(_Graph(graph, options or {}))


def _compile_inference(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The same with parameters and buffers frozen."""
    from functorch.compile import make_boxed_func

    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return make_boxed_func(_Graph(graph, options, metadata.static_input_indices if metadata is not None else ()))


# torch.compile's modes as arguments of dtc.compile.
_MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {"opt_level": 2},
    "max-autotune": {"opt_level": 3},
    "max-autotune-no-cudagraphs": {"opt_level": 3, "options": {"no-graphs": True}},
}


def _settings_of(mode: Optional[str], options: Optional[Mapping[str, Any]]) -> tuple[dict[str, Any], bool]:
    """The arguments of dtc.compile, and whether to freeze parameters. Options of Inductor that dtc has are translated."""
    if mode is not None and mode not in _MODES:
        raise UsageError(f"mode={mode!r}: expected one of {', '.join(map(repr, _MODES))}")
    settings = {**_MODES[mode or "default"], **(options or {})}
    freezing = settings.pop("freezing", False)
    if settings.pop("max_autotune", False):
        settings.setdefault("opt_level", 3)
    graphs = settings.pop("triton.cudagraphs", None)
    if graphs:
        settings.setdefault("opt_level", 2)
    elif graphs is False:
        settings["options"] = {**settings.get("options", {}), "no-graphs": True}
    known = {name for name, p in inspect.signature(compile_program).parameters.items() if p.kind == p.KEYWORD_ONLY}
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"options={{{name!r}: ...}}: dtc has no such option; {hint}It takes the arguments of dtc.compile, and of "
                "Inductor's options 'freezing', 'max_autotune' and 'triton.cudagraphs'"
            )
    return settings, bool(freezing)


@functools.cache
def _decompositions() -> dict[Any, Any]:
    from torch._decomp import core_aten_decompositions

    table = core_aten_decompositions()
    return {op: f for op, f in table.items() if not str(op).startswith(_KEPT)}


def _partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's own, but that random numbers are kept for the backward pass, also in checkpointed regions.

    A recomputed one needs the state of PyTorch's generator, which is not part of a program.
    """
    from torch._functorch.partitioners import default_partition
    from torch.utils.checkpoint import CheckpointPolicy

    for node in joint.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            for kept in (node, *[user for user in node.users if user.target is operator.getitem]):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return default_partition(joint, *args, **kwargs)


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Optional[Mapping[str, Any]] = None,
    *,
    mode: Optional[str] = None,
    name: Optional[str] = None,
) -> Callable[..., Any]:
    """torch.compile(model, backend="dtc", options={"opt_level": 2}); the options are those of dtc.compile."""
    from torch._dynamo.backends.common import aot_autograd

    settings, freezing = _settings_of(mode, options)
    if name is not None:
        settings.setdefault("name", name)
    compiler = aot_autograd(
        fw_compiler=functools.partial(compile_graph, options=settings),
        inference_compiler=functools.partial(_compile_inference if freezing else compile_graph, options=settings),
        decompositions=_decompositions(),
        partition_fn=_partition,
    )
    return compiler(graph, example_inputs)


__all__ = ["backend", "compile_graph"]
