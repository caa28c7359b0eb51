"""torch.compile(model, backend="dtc"): dtc compiles the graphs that PyTorch captures, forward and backward.

>>> import torch, dtc.torch
>>> model = torch.compile(torch.nn.Linear(4, 2), backend="dtc")
>>> model(torch.ones(1, 4)).shape
torch.Size([1, 2])
"""

from ._backend import backend, compile_graph

__all__ = ["backend", "compile_graph"]
