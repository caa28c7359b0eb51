"""The backend of torch.compile."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Optional, Sequence

import torch

from .. import command
from .. import compile as compile_program
from ._graph import outputs_of, write_program

# Attention stays one op, which dtc fuses; its gradient needs PyTorch's own forward and backward ops.
_KEPT = ("_scaled_dot_product",)


def _seed() -> torch.Tensor:
    """For programs that draw random numbers: follows torch.manual_seed."""
    return torch.randint(0, 2**62, (2,)).to(torch.uint64)


class _Graph:
    """One captured graph. With symbolic sizes, it is compiled once per combination of sizes in use."""

    def __init__(self, graph: torch.fx.GraphModule):
        self._inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._outputs = outputs_of(graph)
        self._file = tempfile.NamedTemporaryFile(prefix="dtc-", suffix=".pt2")
        write_program(graph, self._file)
        self._file.flush()
        self._compiled: dict[tuple[tuple[str, int], ...], Any] = {}
        self._sizes = self._size_sources()
        if not self._sizes:
            self._executable(())  # errors are those of torch.compile

    def _size_sources(self) -> list[tuple[str, int, Optional[int]]]:
        """Where each symbolic size is found: an input, and its dim unless the input is the size."""
        found: dict[str, tuple[int, Optional[int]]] = {}
        for position, node in enumerate(self._inputs):
            value = node.meta.get("val")
            dims = [(None, value)] if isinstance(value, torch.SymInt) else []
            dims += list(enumerate(value.shape)) if isinstance(value, torch.Tensor) else []
            for dim, size in dims:
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found.setdefault(str(size.node.expr), (position, dim))
        return [(name, position, dim) for name, (position, dim) in found.items()]

    def _executable(self, sizes: tuple[tuple[str, int], ...]) -> Any:
        if sizes not in self._compiled:
            flags = [word for name, size in sizes for word in ("--dim", f"{name}={size}")]
            text = command(["import", self._file.name, *flags])
            self._compiled[sizes] = (compile_program(text, results="torch"), "%seed: u64[2]" in text)
        return self._compiled[sizes]

    def __call__(self, *arguments: Any) -> list[Any]:
        sizes = tuple(
            (name, int(arguments[position] if dim is None else arguments[position].shape[dim]))
            for name, position, dim in self._sizes
        )
        executable, draws = self._executable(sizes)
        tensors = [a.detach().contiguous() for a in arguments if isinstance(a, torch.Tensor)]
        results = executable(*tensors, *([_seed()] if draws else []))
        results = iter(results if isinstance(results, (tuple, list)) else [results])
        out: list[Any] = []
        for output in self._outputs:
            value = output.meta.get("val") if isinstance(output, torch.fx.Node) else output
            if value is None:
                out.append(None)
            elif isinstance(value, torch.Tensor):
                out.append(next(results))
            else:
                out.append(int(next(results)))
        return out


def compile_graph(graph: torch.fx.GraphModule, example_inputs: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """A graph of ATen ops, as AOTAutograd passes it on, as a function of its inputs."""
    from functorch.compile import make_boxed_func

    return make_boxed_func(_Graph(graph))


def _decompositions() -> dict[Any, Any]:
    from torch._decomp import core_aten_decompositions

    table = core_aten_decompositions()
    return {op: f for op, f in table.items() if not any(name in str(op) for name in _KEPT)}


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """torch.compile(model, backend="dtc")"""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(fw_compiler=compile_graph, decompositions=_decompositions())
    return compiler(graph, example_inputs)


__all__ = ["backend", "compile_graph"]
