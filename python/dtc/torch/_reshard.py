"""Weights that fully_shard frees after the forward pass, which the backward pass gathers again."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import torch

from ._joint import Joint


def _backward_nodes(joint: Joint) -> set[torch.fx.Node]:
    """What depends on the gradient of the loss."""
    found = {node for node, descriptor in joint.inputs if type(descriptor).__name__ == "TangentAOTInput"}
    for node in joint.graph.graph.nodes:
        if not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _is_view(node: torch.fx.Node) -> bool:
    """A view or a conversion of one tensor: it is computed again, too, because it may keep the memory alive."""
    if node.target is torch.ops.aten._to_copy.default:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and len(node.all_input_nodes) == 1 and any(r.alias_info for r in schema.returns)


def _gathered(weights: Sequence[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    for weight in weights:
        for node in [weight, *[user for user in weight.users if _is_view(user)]]:
            yield from [user for user in node.users if user.target is torch.ops.dtc.shard.default]


def gather_again(joint: Joint, weights: Sequence[torch.fx.Node]) -> None:
    """Backward nodes read a second gathering of the weights, which dtc does not merge with the first."""
    graph = joint.graph.graph
    backward = _backward_nodes(joint)
    position = {node: i for i, node in enumerate(graph.nodes)}

    def readers(node: torch.fx.Node) -> set[torch.fx.Node]:
        """Backward nodes that read the node, or a view of it."""
        out = {user for user in node.users if user in backward}
        for user in node.users:
            if user not in backward and _is_view(user):
                out |= readers(user)
        return out

    def copy(node: torch.fx.Node, made: torch.fx.Node) -> None:
        """Replaces the node by `made` for its backward users; copies its views for theirs."""
        for user in list(node.users):
            if user in backward:
                user.replace_input_with(node, made)
            elif _is_view(user) and readers(user):
                view = graph.node_copy(user, lambda given: made if given is node else given)
                copy(user, view)

    for node in list(_gathered(weights)):
        if not (read_by := readers(node)):
            continue
        first = min(read_by, key=position.__getitem__)
        with graph.inserting_before(first):
            arguments: Any = node.args
            again = graph.call_function(torch.ops.dtc.shard_again.default, arguments)
            again.meta = dict(node.meta)
            copy(node, again)


__all__ = ["gather_again"]
