"""torch.compile(model, backend="dtc"): dtc compiles the graphs that PyTorch captures, forward and backward.
parallelize(model, plan): the training step as one program over a mesh.

>>> import torch, dtc.torch
>>> model = torch.compile(torch.nn.Linear(4, 2), backend="dtc")
>>> model(torch.ones(1, 4)).shape
torch.Size([1, 2])
"""

from ._backend import backend, compile_graph
from ._save import save, size_names

__all__ = ["Parallel", "backend", "compile_graph", "export_local", "parallelize", "save", "shard", "size_names"]

# What needs torch.distributed is loaded when it is used.
_LAZY = {"Parallel": "_parallel", "parallelize": "_parallel", "shard": "_shard", "export_local": "_local"}


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'dtc.torch' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("." + _LAZY[name], __name__), name)
