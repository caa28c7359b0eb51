"""How the tensors of a captured graph reach a program without copies.

A program reads and writes contiguous tensors in place. So that all arguments and results are contiguous:

- a tensor that is transposed in memory (`x.T`, `channels_last`) is passed in the order of its memory, and the program
  transposes it, which dtc fuses; a result that PyTorch expects to be transposed is returned likewise;
- a result that is an argument, or a view of one, is that tensor, or that view, and not part of the program; views of
  one computed value are views of one result;
- tensors that the graph holds become arguments.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Optional, Sequence

import torch

Order = tuple[int, ...]


def outputs_of(graph: torch.fx.GraphModule) -> list[Any]:
    outputs = graph.graph.output_node().args[0]
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _is_symbolic(value: torch.Tensor) -> bool:
    return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


def order_of(value: Any) -> Optional[Order]:
    """The dims of a dense tensor from the outermost to the innermost in memory; None: contiguous, or not dense."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or _is_symbolic(value):
        return None
    if value.is_contiguous():
        return None
    order = tuple(sorted(range(value.dim()), key=lambda dim: (-value.stride(dim), dim)))
    return order if value.permute(order).is_contiguous() else None


def _is_dense(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or _is_symbolic(value):
        return False
    return value.is_contiguous() or order_of(value) is not None


def inverse(order: Order) -> Order:
    return tuple(order.index(dim) for dim in range(len(order)))


class Lifted:
    """Tensors that the graph holds, as further placeholders after its own."""

    def __init__(self, graph: torch.fx.GraphModule):
        self.tensors: list[torch.Tensor] = []
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for node in [node for node in graph.graph.nodes if node.op == "get_attr"]:
            tensor = graph
            for part in str(node.target).split("."):
                tensor = getattr(tensor, part)
            if not isinstance(tensor, torch.Tensor):
                continue
            with graph.graph.inserting_after(placeholders[-1]) if placeholders else graph.graph.inserting_before(
                next(iter(graph.graph.nodes))
            ):
                lifted = graph.graph.placeholder(node.name + "_value")
            lifted.meta["val"] = node.meta.get("val", tensor)
            node.replace_all_uses_with(lifted)
            graph.graph.erase_node(node)
            placeholders.append(lifted)
            self.tensors.append(tensor)


def _is_view(node: torch.fx.Node) -> bool:
    """Of one tensor, and computed from it alone; also of all views that an op such as split returns."""
    if node.op != "call_function" or len(node.all_input_nodes) != 1 or node.args[0] is not node.all_input_nodes[0]:
        return False
    if node.target is operator.getitem:
        return _is_view(node.all_input_nodes[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _root_of(node: torch.fx.Node) -> tuple[torch.fx.Node, list[torch.fx.Node]]:
    """What a node is a view of, and the views that lead to it."""
    views: list[torch.fx.Node] = []
    while _is_view(node):
        views.insert(0, node)
        node = node.all_input_nodes[0]
    return node, views


def _elements(node: torch.fx.Node) -> int:
    """0: not known."""
    value = node.meta.get("val")
    sizes = value.shape if isinstance(value, torch.Tensor) else [0]
    return 0 if any(isinstance(n, torch.SymInt) for n in sizes) else math.prod(sizes)


class Results:
    """Makes the results of a graph of its arguments and of what the program returns.

    The constructor removes from the graph what is not part of the program.
    """

    def __init__(self, graph: torch.fx.GraphModule):
        positions = {node: i for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")}
        outputs = outputs_of(graph)
        roots = self._roots({output for output in outputs if isinstance(output, torch.fx.Node)})
        self._makers: list[Callable[[Sequence[Any], Sequence[Any]], Any]] = []
        computed: dict[torch.fx.Node, int] = {}
        for output in outputs:
            if not isinstance(output, torch.fx.Node) or output.meta.get("val") is None:
                self._makers.append(_constant(None if isinstance(output, torch.fx.Node) else output))
                continue
            root, views = roots[output]
            if root in positions:
                self._makers.append(_viewed(_argument(positions[root]), views))
            else:
                at = computed.setdefault(root, len(computed))
                self._makers.append(_viewed(_result(at, root.meta["val"]), views))
        self._keep(graph, list(computed))

    @staticmethod
    def _roots(outputs: set[torch.fx.Node]) -> dict[torch.fx.Node, tuple[torch.fx.Node, list[torch.fx.Node]]]:
        """For each output, the argument or the result that it is a view of.

        Dense views of a computed value that together have all its elements are views of one result. Fewer elements
        are results of their own, so that they do not keep the memory of the value; strided ones, too, as the program
        that takes them next would copy them.
        """
        roots = {output: _root_of(output) for output in outputs}
        elements: dict[torch.fx.Node, int] = {}
        for output, (root, _) in roots.items():
            if _is_dense(output.meta.get("val")):
                elements[root] = elements.get(root, 0) + _elements(output)
        for output, (root, _) in roots.items():
            shares = _is_dense(output.meta.get("val")) and 0 < _elements(root) <= elements[root]
            if root.op != "placeholder" and not shares:
                roots[output] = (output, [])
        return roots

    @staticmethod
    def _keep(graph: torch.fx.GraphModule, nodes: list[torch.fx.Node]) -> None:
        output = graph.graph.output_node()
        with graph.graph.inserting_before(output):
            kept = [_permuted(graph, node, order_of(node.meta["val"])) for node in nodes]
        output.args = (tuple(kept),)
        graph.graph.eliminate_dead_code()

    def __call__(self, arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        return [make(arguments, results) for make in self._makers]


def _constant(value: Any) -> Callable[..., Any]:
    return lambda arguments, results: value


def _argument(position: int) -> Callable[..., Any]:
    return lambda arguments, results: arguments[position]


def _viewed(base: Callable[..., Any], views: list[torch.fx.Node]) -> Callable[..., Any]:
    if not views:
        return base
    calls = [(view.target, view.args[1:], view.kwargs) for view in views]

    def make(arguments: Sequence[Any], results: Sequence[Any]) -> Any:
        tensor = base(arguments, results)
        for op, args, kwargs in calls:
            tensor = op(tensor, *args, **kwargs)
        return tensor

    return make


def _result(at: int, value: Any) -> Callable[..., Any]:
    order = order_of(value)
    if not isinstance(value, torch.Tensor):
        return lambda arguments, results: int(results[at])
    if order is None:
        return lambda arguments, results: results[at]
    back = inverse(order)
    return lambda arguments, results: results[at].permute(back)


def _permuted(graph: torch.fx.GraphModule, node: torch.fx.Node, order: Optional[Order]) -> torch.fx.Node:
    if order is None:
        return node
    made = graph.graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
    made.meta["val"] = node.meta["val"].permute(order)
    return made


def permute_arguments(graph: torch.fx.GraphModule) -> list[Optional[Order]]:
    """Makes transposed arguments those of their memory's order, which is returned for each argument."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    orders = [order_of(node.meta.get("val")) for node in placeholders]
    for node, order in zip(placeholders, orders):
        if order is None:
            continue
        users = list(node.users)
        value = node.meta["val"]
        node.meta["val"] = value.permute(order)
        with graph.graph.inserting_after(placeholders[-1]):
            back = _permuted(graph, node, inverse(order))
        for user in users:
            user.replace_input_with(node, back)
    return orders
