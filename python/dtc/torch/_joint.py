"""The joint graph of a module: forward and backward pass, with the user's lines and the paths of modules."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import torch
import torch.fx.traceback
from torch.overrides import TorchFunctionMode

from .._errors import UsageError
from ._backend import _decompositions
from ._border import Lifted

_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)


class _Lines(TorchFunctionMode):
    """Notes, for the nodes that a call of PyTorch makes, the line of the call that is not in PyTorch or in dtc."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # of the branches of torch.cond
            return func(*args, **(kwargs or {}))
        frame = sys._getframe(1)
        end = joint_graph.__wrapped__.__code__  # what called it is not of interest  # type: ignore[attr-defined]
        while frame and frame.f_code is not end and frame.f_code.co_filename.startswith(_LIBRARIES):
            frame = frame.f_back
        if frame and frame.f_code is not end:
            line = f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
            torch.fx.traceback.current_meta["stack_trace"] = line
        else:
            torch.fx.traceback.current_meta.pop("stack_trace", None)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _module_paths(model: torch.nn.Module) -> Iterator[None]:
    """Notes, for the nodes that a module makes, the path of the module."""
    open_modules: list[tuple[str, str]] = []

    def note() -> None:
        stack = OrderedDict((f"{i}_{path}", (path, kind)) for i, (path, kind) in enumerate(open_modules))
        torch.fx.traceback.current_meta["nn_module_stack"] = stack

    handles = []
    for path, module in model.named_modules():
        entry = (path, f"{type(module).__module__}.{type(module).__qualname__}")

        def before(_: Any, __: Any, entry: tuple[str, str] = entry) -> None:
            open_modules.append(entry)
            note()

        def after(*_: Any) -> None:
            open_modules.pop()
            note()

        handles.append(module.register_forward_pre_hook(before, prepend=True))
        handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    """PyTorch makes one op of oneDNN of an LSTM, where it can."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextlib.contextmanager
def _located() -> Iterator[None]:
    """Adds the user's line to errors of code that looks at numbers."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        line = ""
        trace = error.__traceback__
        while trace:
            if not trace.tb_frame.f_code.co_filename.startswith(_LIBRARIES) and trace.tb_next:
                line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
            trace = trace.tb_next
        raise UsageError(
            f"{line}the program depends on numbers that are not known while it is traced ({error}): write it with "
            "torch.where"
        ) from error


@dataclass
class Joint:
    """Placeholders and outputs with AOTAutograd's descriptors (torch._functorch._aot_autograd.descriptors)."""

    graph: torch.fx.GraphModule
    inputs: list[tuple[torch.fx.Node, Any]]
    outputs: list[tuple[torch.fx.Node, Any]]  # without gradients that are not needed
    held: list[tuple[torch.fx.Node, torch.Tensor]]  # further inputs: tensors that the code itself holds

    def set_outputs(self, outputs: Sequence[tuple[torch.fx.Node, Any]]) -> None:
        self.outputs = list(outputs)
        self.graph.graph.output_node().args = (tuple(node for node, _ in outputs),)


@contextlib.contextmanager
def joint_graph(module: torch.nn.Module, model: torch.nn.Module, args: Sequence[torch.Tensor]) -> Iterator[Joint]:
    """Traces module(*args), and its gradients if gradients are enabled. Paths are those within `model`."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

    with contextlib.ExitStack() as stack, torch.fx.traceback.preserve_node_meta():
        with _module_paths(model), _Lines(), _without_onednn(), _located():
            joint = aot_export_joint_with_descriptors(stack, module, tuple(args), decompositions=_decompositions())
        graph = joint.graph_module
        for node in graph.graph.nodes:
            forward = node.meta.get("fwd_nn_module_stack")
            if forward:
                node.meta["nn_module_stack"] = forward
        inputs = [(node, node.meta["desc"]) for node in graph.graph.nodes if node.op == "placeholder"]
        tensors = Lifted(graph).tensors
        placed = [node for node in graph.graph.nodes if node.op == "placeholder"]
        end = graph.graph.output_node()
        made = zip(end.args[0], end.meta["desc"])
        yield Joint(
            graph,
            inputs,
            [(node, descriptor) for node, descriptor in made if isinstance(node, torch.fx.Node)],
            list(zip(placed[len(inputs) :], tensors)),
        )


def rename(node: torch.fx.Node, name: str) -> None:
    """As an identifier, and not that of another node: "0.weight" is `p_0_weight`."""
    name = re.sub(r"\W+", "_", name).strip("_")
    node._rename(name if name[:1].isalpha() else "p_" + name)
    if node.op == "placeholder":
        node.target = node.name


def replace_by_one(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Of a placeholder: the gradient of a loss with respect to itself."""
    value = node.meta["val"]
    with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
        one = graph.call_function(
            torch.ops.aten.full.default, (list(value.shape), 1.0), {"dtype": value.dtype, "device": value.device}
        )
    one.meta["val"] = value
    node.replace_all_uses_with(one)
    graph.erase_node(node)


def unique_output(graph: torch.fx.Graph, node: torch.fx.Node, sharding: str) -> torch.fx.Node:
    """A value that only is this output, annotated with its sharding."""
    with graph.inserting_before(graph.output_node()):
        made = graph.call_function(torch.ops.dtc.shard.default, (node, sharding))
    made.meta = {key: value for key, value in node.meta.items() if key in ("val", "stack_trace", "nn_module_stack")}
    return made


__all__ = ["Joint", "joint_graph", "rename", "replace_by_one", "unique_output"]
