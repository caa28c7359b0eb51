"""Higher-order ops that a .pt2 file cannot hold, as ops that it can.

Attention with functions of scores and associative scans become PyTorch's definitions of them, traced; a switch becomes
conditions.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Mapping

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten


def _traced(
    graph: torch.fx.GraphModule, node: torch.fx.Node, function: Callable[..., Any], table: Callable[[], Mapping[Any, Any]]
) -> None:
    """Replaces the node by the ops of function(*its arguments)."""
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, spec = tree_flatten((node.args, node.kwargs))
    inputs = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node) and leaf.op != "get_attr"]

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        filled = []
        for leaf in leaves:
            if isinstance(leaf, torch.fx.Node):
                leaf = getattr(graph, str(leaf.target)) if leaf.op == "get_attr" else next(rest)
            filled.append(leaf)
        args, kwargs = tree_unflatten(filled, spec)
        return tuple(tree_flatten(function(*args, **kwargs))[0])

    values = [leaf.meta["val"] for leaf in inputs]
    mode = torch._guards.detect_fake_mode(values)
    with mode:
        body = make_fx(torch.func.functionalize(call), decomposition_table=dict(table()))(*values)
    places = [n for n in body.graph.nodes if n.op == "placeholder"]
    for held in body.graph.find_nodes(op="get_attr"):  # numbers as tensors
        tensor = getattr(body, str(held.target))
        held.target = f"{node.name}{held.target}"
        graph.register_buffer(held.target, getattr(tensor, "constant", tensor))
    with graph.graph.inserting_before(node):
        results = graph.graph.graph_copy(body.graph, dict(zip(places, inputs)))
    _replace(graph, node, results)


def _replace(graph: torch.fx.GraphModule, node: torch.fx.Node, results: Any) -> None:
    """The results of the node are these; those in nested tuples are counted through."""
    flat = iter(results)
    named = tree_map(lambda value: None if value is None else next(flat), node.meta["val"])
    _bind(graph, node, named)


def _bind(graph: torch.fx.GraphModule, node: torch.fx.Node, named: Any) -> None:
    if isinstance(named, (tuple, list)):
        for user in list(node.users):
            assert user.target is operator.getitem
            _bind(graph, user, named[user.args[1]])
    elif isinstance(named, torch.fx.Node):
        node.replace_all_uses_with(named)
    graph.graph.erase_node(node)


def _as_conditions(graph: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """switch(index, branches, operands): branch 0 if index == 0, else branch 1 if index == 1, …"""
    index, branches, operands = node.args[0], list(node.args[1]), list(node.args[2])
    value = node.meta["val"]
    last = branches[-1]
    inputs = [index, *operands]
    for i in range(len(branches) - 1, 0, -1):  # the conditions from the innermost to the outermost
        last = _condition(graph, node, i - 1, branches[i - 1], last, inputs, first=i == len(branches) - 1)
    with graph.graph.inserting_before(node):
        call = graph.graph.call_function(torch.ops.higher_order.invoke_subgraph, (last, node.name, *inputs))
    call.meta["val"] = tuple(value) if isinstance(value, (tuple, list)) else value
    node.replace_all_uses_with(call)
    graph.graph.erase_node(node)


def _condition(
    graph: torch.fx.GraphModule, node: torch.fx.Node, i: int, yes: Any, no: Any, inputs: list[Any], first: bool
) -> torch.fx.Node:
    """A module of index and operands: cond(index == i, yes, no); `no` is such a module, too, unless it is the first."""
    inner = torch.fx.Graph()
    places = [inner.placeholder(f"operand{k}") for k in range(len(inputs))]
    for place, given in zip(places, inputs):
        place.meta["val"] = given.meta["val"] if isinstance(given, torch.fx.Node) else given
    same = inner.call_function(torch.ops.aten.eq.Scalar, (places[0], i))
    same.meta["val"] = torch.ops.aten.eq.Scalar(places[0].meta["val"], i)
    holder = torch.nn.Module()
    holder.yes, holder.no = _with_index(graph, yes, True, places), _with_index(graph, no, first, places)
    results = inner.call_function(
        torch.ops.higher_order.cond, (same, inner.get_attr("yes"), inner.get_attr("no"), tuple(places))
    )
    value = tuple(node.meta["val"]) if isinstance(node.meta["val"], (tuple, list)) else (node.meta["val"],)
    results.meta["val"] = value
    outputs = []
    for k, v in enumerate(value):
        output = inner.call_function(operator.getitem, (results, k))
        output.meta["val"] = v
        outputs.append(output)
    inner.output(tuple(outputs))
    name = f"{node.name}_case{i}"
    graph.register_module(name, torch.fx.GraphModule(holder, inner))
    with graph.graph.inserting_before(node):
        return graph.graph.get_attr(name)


def _with_index(graph: torch.fx.GraphModule, branch: torch.fx.Node, leaf: bool, places: list[Any]) -> Any:
    """The module of a branch, which a leaf's index is added to as an input."""
    module = getattr(graph, str(branch.target))
    if not leaf:
        return module
    copied = torch.fx.Graph()
    index = copied.placeholder("index")
    index.meta["val"] = places[0].meta["val"]
    copied.output(copied.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, copied)


def expanded(graph: torch.fx.GraphModule, table: Callable[[], Mapping[Any, Any]]) -> None:
    """Rewrites the graph. table(): decompositions of the ops that a traced definition has."""
    for node in list(graph.graph.nodes):
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name == "flex_attention":
            from torch._higher_order_ops.flex_attention import sdpa_dense

            _traced(graph, node, sdpa_dense, table)
        elif name == "flex_attention_backward":
            from torch._higher_order_ops.flex_attention import sdpa_dense_backward

            _traced(graph, node, sdpa_dense_backward, table)
        elif name == "associative_scan":
            from torch._higher_order_ops.associative_scan import associative_scan_op_dense

            _traced(graph, node, associative_scan_op_dense, table)
        elif name == "switch":
            _as_conditions(graph, node)
        elif name in ("invoke_quant", "invoke_quant_packed"):  # how a code generator should treat the function
            node.kwargs = {}
    for node in list(graph.graph.nodes):
        if getattr(node.target, "__name__", "") == "InvokeQuant" and not node.users:
            graph.graph.erase_node(node)


__all__ = ["expanded"]
