"""A captured graph of ATen ops as the program of a .pt2 file, which dtc's importer reads."""

from __future__ import annotations

import io
import json
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


def program_of(graph: torch.fx.GraphModule, placement: Optional[Mapping[str, Any]] = None) -> bytes:
    """The graph as the contents of a .pt2 file without weights: all tensors are inputs.

    placement: the mesh and shardings, as lib/Torch/read/Placement.h says.
    """
    _named_types(graph)
    _tuples_of_results(graph)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, _argument(output), None) for output in outputs_of(graph)],
    )
    module = serialize.GraphModuleSerializer(signature, []).serialize(graph)
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
