"""dtc.torch.export_local: PyTorch's own program of one device, with its collectives, as a file that dtc reads."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import _disable_current_modes

from .._errors import UsageError
from ._graph import program_of
from ._joint import joint_graph
from ._placements import dims_of, names_of, sharding_text

MESH = "mesh"


def _groups_of(mesh: Any) -> dict[str, list[str]]:
    """The axis of each process group of the mesh."""
    return {mesh.get_group(i).group_name: [axis] for i, axis in enumerate(names_of(mesh))}


def _attribute(descriptor: Any) -> Optional[str]:
    return getattr(descriptor, "attr", None)


def _base(descriptor: Any) -> Any:
    while hasattr(descriptor, "base"):
        descriptor = descriptor.base
    return descriptor


def _without_meshes(graph: torch.fx.GraphModule) -> list[Any]:
    """Removes the device meshes, which the traced graph takes and returns; the descriptors of what is left."""
    end = graph.graph.output_node()
    kept = [(n, d) for n, d in zip(end.args[0], end.meta["desc"]) if _attribute(d) in (None, "_local_tensor")]
    end.args = (tuple(n for n, _ in kept),)
    end.meta["desc"] = [d for _, d in kept]
    for node in list(graph.graph.nodes):
        if node.op == "placeholder" and _attribute(node.meta.get("desc")) == "device_mesh":
            if node.users:
                raise UsageError("the program computes with a device mesh, which dtc does not read")
            graph.graph.erase_node(node)
    graph.recompile()
    return end.meta["desc"]


@contextlib.contextmanager
def _as_device(rank: int) -> Iterator[None]:
    """While it is active, meshes tell the coordinates of another device than this one."""
    kept = DeviceMesh.get_rank

    def coordinates(mesh: Any) -> Any:
        with _disable_current_modes():  # it computes with tensors
            all_meshes = mesh._layout.remap_to_tensor(mesh._rank_map)  # a submesh of each device along the other axes
            return tuple((all_meshes == rank).nonzero()[0].tolist()[1:])

    DeviceMesh._coordinate_on_dim = property(
        coordinates, lambda mesh, value: mesh.__dict__.__setitem__("_coordinate_on_dim", value)
    )
    DeviceMesh.get_rank = lambda self: rank
    try:
        yield
    finally:
        del DeviceMesh._coordinate_on_dim
        DeviceMesh.get_rank = kept


def _warn_if_devices_differ(model: torch.nn.Module, mesh: Any, args: Sequence[Any], graph: torch.fx.Graph) -> None:
    """A graph is traced for the first device. Not every program is the same on all of them."""
    with _disable_current_modes():
        last = int(mesh.mesh.max())
    with _as_device(last), joint_graph(model, model, args) as joint:
        for node, other in zip(graph.nodes, joint.graph.graph.nodes):
            if (node.target, str(node.args), str(node.kwargs)) == (other.target, str(other.args), str(other.kwargs)):
                continue
            place = node.meta.get("stack_trace", "").replace('File "', "").replace('", line ', ":").partition(", in ")[0]
            op = node.target if isinstance(node.target, torch._ops.OpOverload) else node.name
            warnings.warn(
                f"device {last} runs another program than device 0, which the file has: {op} "
                f"{f'at {place} ' if place else ''}depends on the device. Audit the file, but do not run it.",
                stacklevel=3,
            )
            return


class _Placed:
    """The shardings of a parallelized model's tensors by their descriptors."""

    def __init__(
        self,
        model: torch.nn.Module,
        mesh: Any,
        args: Sequence[Any],
        inputs: Mapping[int, str],
        outputs: Mapping[int, str],
    ):
        self.axes = dict(zip(names_of(mesh), mesh.shape))
        self._states: dict[str, Any] = dict(model.named_parameters(remove_duplicate=False))
        self._states.update(model.named_buffers(remove_duplicate=False))
        self._args = args
        self._inputs = inputs
        self._outputs = outputs

    def text(self, descriptor: Any) -> Optional[str]:
        from torch._functorch._aot_autograd.descriptors import PlainAOTInput, PlainAOTOutput, TangentAOTInput

        base = _base(descriptor)
        if isinstance(base, TangentAOTInput):
            base = _base(base.output)
        if isinstance(base, PlainAOTOutput):
            if base.idx not in self._outputs and _attribute(descriptor) is not None:
                raise UsageError(f"result {base.idx} is a DTensor: give its sharding, outputs={{{base.idx}: '{{...}}'}}")
            return self._outputs.get(base.idx)
        base = getattr(base, "grad_of", base)
        target, position = getattr(base, "target", None), getattr(base, "idx", None)
        if target is not None:
            return self._tensor(f"parameter '{target}'", self._states[target])
        if isinstance(base, PlainAOTInput):
            return self._inputs.get(position) or self._tensor(f"input {position}", self._args[position])
        return None

    def _tensor(self, what: str, tensor: Any) -> Optional[str]:
        if not isinstance(tensor, DTensor):
            return None  # the same on all devices
        return sharding_text(dims_of(what, tensor.device_mesh, tensor.placements, tensor.ndim, self.axes))


def export_local(
    model: torch.nn.Module,
    args: Sequence[Any],
    path: Union[str, os.PathLike],
    *,
    mesh: Any = None,
    inputs: Optional[Mapping[int, str]] = None,
    outputs: Optional[Mapping[int, str]] = None,
) -> None:
    """Writes the program that PyTorch runs on one device, forward and backward, as a .pt2 file.

    model: parallelized by parallelize_module or distribute_tensor.
    args: an example of the model's arguments: DTensors, or one device's tensors.
    mesh: the DeviceMesh; by default that of the parameters.
    inputs: shardings of arguments that are not DTensors, by position; by default they are the same on all devices.
    outputs: shardings of the model's results, by position; required of DTensors, by default replicated.

    `dtc audit`, `dtc run` and the other verbs read the file: shapes are those of one device, and process groups
    are written as the mesh axes that they are along. A warning says if other devices run another program.
    """
    if mesh is None:
        meshes = [p.device_mesh for p in model.parameters() if isinstance(p, DTensor)]
        if not meshes:
            raise UsageError("no parameter of the model is a DTensor; give mesh=")
        mesh = meshes[0]._get_root_mesh()
    placed = _Placed(model, mesh, args, inputs or {}, outputs or {})
    with joint_graph(model, model, args) as joint:
        graph = joint.graph
        _warn_if_devices_differ(model, mesh, args, graph.graph)
        _without_meshes(graph)
        found: dict[str, str] = {}
        for node in graph.graph.nodes:
            if node.op == "placeholder" and (text := placed.text(node.meta.get("desc"))) is not None:
                found[node.name] = text
        results: dict[str, str] = {}
        end = graph.graph.output_node()
        for node, descriptor in zip(end.args[0], end.meta["desc"]):
            if isinstance(node, torch.fx.Node) and (text := placed.text(descriptor)) is not None:
                results[node.name] = text
        axes = [[axis, size] for axis, size in placed.axes.items()]
        placement = {"mesh": {"name": MESH, "axes": axes}, "inputs": found, "outputs": results,
                     "local": True, "groups": _groups_of(mesh)}
        with open(path, "wb") as file:
            file.write(program_of(graph, placement))


__all__ = ["export_local"]
