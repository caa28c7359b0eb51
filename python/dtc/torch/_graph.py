"""A captured graph of ATen ops as the program of a .pt2 file, which dtc's importer reads."""

from __future__ import annotations

import io
import json
import operator
import re
import zipfile
from typing import Any, Iterator, Mapping, Optional

import torch
from torch._export.serde import serialize
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

from .._errors import Diagnostic, ProgramError
from ._border import outputs_of


def _argument(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
    if isinstance(value, torch.Tensor):
        return TensorArgument(name=node.name)
    if isinstance(value, torch.SymInt):
        return SymIntArgument(name=node.name)
    return ConstantArgument(name=getattr(node, "name", ""), value=value)


def _nodes_of(graph: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Those of the graph, and of the branches and bodies in it."""
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _named_types(graph: torch.fx.GraphModule) -> None:
    """The serializer expects names of module classes, where a captured graph has the classes."""
    for node in _nodes_of(graph):
        stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
        if any(isinstance(kind, type) for _, kind in stack.values()):
            node.meta["nn_module_stack"] = {
                key: (path, f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else kind)
                for key, (path, kind) in stack.items()
            }


def _tuples_of_results(graph: torch.fx.GraphModule) -> None:
    """The serializer expects a tuple of results of a higher-order op, where gradients of them have a list."""
    for node in _nodes_of(graph):
        if isinstance(node.target, torch._ops.HigherOrderOperator) and isinstance(node.meta.get("val"), list):
            node.meta["val"] = tuple(node.meta["val"])


def without_sums(graph: torch.fx.GraphModule) -> None:
    """Sums of several sizes as additions of two: PyTorch's format of files has no torch.sym_sum."""
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.sym_sum):
                _as_additions(module, node)


def _as_additions(graph: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    sizes = list(node.args[0])
    with graph.graph.inserting_before(node):
        while len(sizes) > 1:
            added = graph.graph.call_function(operator.add, (sizes[0], sizes[1]))
            added.meta = {**node.meta, "val": operator.add(*map(_value_of, sizes[:2]))}
            sizes[:2] = [added]
    node.replace_all_uses_with(sizes[0] if sizes else 0)
    graph.graph.erase_node(node)


def _value_of(size: Any) -> Any:
    return size.meta["val"] if isinstance(size, torch.fx.Node) else size


def _serialized(signature: ExportGraphSignature, graph: torch.fx.GraphModule) -> Any:
    """By PyTorch's serializer, with all functions of sizes: dtc reads the expressions of known sizes instead.

    The class cannot be derived from, so the methods are those of the object.
    """
    serializer = serialize.GraphModuleSerializer(signature, [])
    calls, inputs = serializer.handle_call_function, serializer.serialize_sym_op_inputs
    at: Optional[torch.fx.Node] = None

    def handle_call_function(node: torch.fx.Node) -> None:
        nonlocal at
        at = node
        calls(node)

    def serialize_sym_op_inputs(op: Any, args: Any) -> Any:
        if isinstance(op, torch._ops.OpOverload) or op in serialize._SYM_OPS:
            return inputs(op, args)
        kind = serialize.ArgumentKind.POSITIONAL
        return [serialize.NamedArgument(f"x{i}", serializer.serialize_input(a), kind) for i, a in enumerate(args)]

    serializer.handle_call_function = handle_call_function
    serializer.serialize_sym_op_inputs = serialize_sym_op_inputs
    try:
        return serializer.serialize(graph)
    except serialize.SerializeError as error:
        if "SymFloat graph input" in str(error):
            raise unsupported(
                "unsupported argument: the backward pass takes a float that the forward pass computes from sizes, which "
                "a .pt2 file cannot hold; torch.compile(dynamic=False) has such sizes as numbers",
                at,
            ) from error
        raise not_in_files(error, at) from error


def not_in_files(error: serialize.SerializeError, node: Optional[torch.fx.Node] = None) -> ProgramError:
    """What PyTorch's format of files cannot hold, with the line of the program. PyTorch's error ends in a traceback."""
    first, _, rest = str(error).partition("\n")
    reason = error.__cause__ or rest.rstrip().rpartition("\n")[2]
    called = node.target if node is not None else first
    what = str(called) if isinstance(called, torch._ops.OpOverload) else getattr(called, "__name__", str(called))
    return unsupported(
        f"unsupported op '{what}': a .pt2 file cannot hold it ({' '.join(str(reason).split()) or first})", node
    )


def unsupported(message: str, node: Optional[torch.fx.Node]) -> ProgramError:
    """The error of an op, with the line of the program."""
    places = re.findall(r'File "([^"\n]+)", line (\d+)', (node.meta.get("stack_trace") or "") if node is not None else "")
    file, line = places[-1] if places else ("", "0")
    text = f"{file}:{line}: error: {message}" if file else f"error: {message}"
    return ProgramError(f"{text} [import-unknown-op]", (Diagnostic("error", "import-unknown-op", message, file, int(line)),))


def program_of(graph: torch.fx.GraphModule, placement: Optional[Mapping[str, Any]] = None) -> bytes:
    """The graph as the contents of a .pt2 file without weights: all tensors are inputs.

    placement: the mesh and shardings, as lib/Torch/read/Placement.h says.
    """
    _named_types(graph)
    _tuples_of_results(graph)
    without_sums(graph)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, _argument(output), None) for output in outputs_of(graph)],
    )
    module = _serialized(signature, graph)
    program = {
        "graph_module": serialize._dataclass_to_dict(module),
        "schema_version": {"major": serialize.SCHEMA_VERSION[0], "minor": serialize.SCHEMA_VERSION[1]},
        "range_constraints": {},
        "dtc": {**(placement or {}), "captured": True},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("graph/archive_format", "pt2")
        archive.writestr("graph/byteorder", "little")
        archive.writestr("graph/models/model.json", json.dumps(program, cls=serialize.EnumEncoder))
    return file.getvalue()
