"""The op `dtc::shard`: an annotation in a traced program, the identity when PyTorch runs it."""

from __future__ import annotations

from typing import Any

import torch


@torch.library.custom_op("dtc::shard", mutates_args=())
def _shard(x: torch.Tensor, sharding: str) -> torch.Tensor:
    return x.clone()


@_shard.register_fake
def _like(x: torch.Tensor, sharding: str) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _backward(ctx: Any, dy: Any) -> tuple[Any, None]:
    return dy, None


_shard.register_autograd(_backward)


@torch.library.custom_op("dtc::shard_again", mutates_args=())
def _shard_again(x: torch.Tensor, sharding: str) -> torch.Tensor:
    """The same in the backward pass, which does not keep the result of the forward pass."""
    return x.clone()


_shard_again.register_fake(_like)


def shard(x: torch.Tensor, sharding: str) -> torch.Tensor:
    """x, with an annotation that dtc reads: shard(h, "{dp, _, tp}"). PyTorch itself computes a copy of x."""
    return torch.ops.dtc.shard(x, sharding)


__all__ = ["shard"]
