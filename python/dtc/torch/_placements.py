"""Placements of PyTorch's DTensor, parallel styles and FSDP as dtc's shardings."""

from __future__ import annotations

import contextlib
import copy
import fnmatch
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch.distributed.tensor import DTensor

from .._errors import UsageError


@dataclass
class Activation:
    """What a parallel style says about the tensors that enter and leave a module: placements along one axis."""

    module: str
    axis: str
    inputs: Sequence[Any] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[Any] = ()


@dataclass
class Precision:
    """fully_shard's MixedPrecisionPolicy of a parameter: None is the parameter's own dtype."""

    use: Optional[torch.dtype]  # in which it is gathered and used
    reduce: Optional[torch.dtype]  # in which its gradient is reduced


@dataclass
class Cast:
    """fully_shard's MixedPrecisionPolicy of a module: floating-point tensors that enter and leave it become those."""

    module: str
    inputs: Optional[torch.dtype]
    outputs: Optional[torch.dtype]


@dataclass
class Plan:
    """A plan as data: the mesh, and the axes that shard each dim of each parameter, major to minor."""

    axes: dict[str, int]
    parameters: dict[str, list[list[str]]]
    activations: list[Activation]
    data: tuple[str, ...]  # the axes that shard the batch
    precision: dict[str, Precision] = field(default_factory=dict)  # of parameters that have a policy
    casts: list[Cast] = field(default_factory=list)
    freed: set[str] = field(default_factory=set)  # parameters that the backward pass gathers again


def sharding_text(dims: Sequence[Sequence[str]]) -> str:
    """[["tp", "dp"], []] as "{(tp, dp), _}"."""
    return "{" + ", ".join("_" if not d else d[0] if len(d) == 1 else f"({', '.join(d)})" for d in dims) + "}"


def names_of(mesh: Any) -> tuple[str, ...]:
    """Those of the mesh's dims; d0, d1, … of a mesh without names."""
    return tuple(mesh.mesh_dim_names or (f"d{i}" for i in range(mesh.ndim)))


def _root_of(mesh: Any) -> Any:
    return mesh._get_root_mesh()


def dims_of(what: str, mesh: Any, placements: Sequence[Any], rank: int, axes: Mapping[str, int]) -> list[list[str]]:
    """The axes of each dim, major to minor. FSDP over TP is a _StridedShard, which is minor to what follows it."""
    out: list[list[str]] = [[] for _ in range(rank)]
    strided: list[tuple[int, str, int]] = []
    if placements and len(placements) != len(names_of(mesh)):
        raise UsageError(f"{what}: {len(placements)} placements are given for a mesh of {len(names_of(mesh))} dims")
    for axis, size, placement in zip(names_of(mesh), mesh.shape, placements):
        if axis not in axes:
            raise UsageError(f"{what}: the mesh axis '{axis}' is not one of the root mesh, {', '.join(axes)}")
        if size != axes[axis]:
            raise UsageError(f"{what}: the mesh axis '{axis}' has the size {size}, and {axes[axis]} in the root mesh")
        kind = type(placement).__name__
        if "Shard" in kind and not -rank <= placement.dim < rank:
            raise UsageError(f"{what}: {placement} shards a dim that a tensor of rank {rank} does not have")
        if kind == "_StridedShard":
            strided.append((placement.dim % rank, axis, placement.split_factor))
        elif kind == "Shard":
            out[placement.dim % rank].append(axis)
        elif kind != "Replicate":
            raise UsageError(f"{what}: the placement {placement} along '{axis}' is not supported for arguments")
    for dim, axis, factor in reversed(strided):
        major = 1
        for other in out[dim]:
            major *= axes[other]
        if major != factor:
            raise UsageError(f"{what}: the split factor {factor} along '{axis}' is not that of the axes {out[dim]}")
        out[dim].append(axis)
    return out


# The attributes of parallel styles that say what a module takes and returns.
_INPUTS = ("desired_input_layouts", "sequence_sharding")
_OUTPUTS = ("desired_output_layouts", "output_layouts", "sequence_sharding")


def _first(style: Any, names: Sequence[str]) -> tuple:
    for name in names:
        value = getattr(style, name, None)
        if value:
            return tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return ()


def _parts(style: Any) -> list[Any]:
    """PrepareModuleInputOutput is made of two styles."""
    parts = [getattr(style, name, None) for name in ("prepare_module_input", "prepare_module_output")]
    return [part for part in parts if part is not None] or [style]


@contextlib.contextmanager
def _recorded(model: torch.nn.Module, found: list[Activation]) -> Iterator[None]:
    """Records the styles that parallelize_module applies to modules of the model."""
    from torch.distributed.tensor.parallel.style import ParallelStyle

    paths = {id(module): path for path, module in model.named_modules()}
    kept: list[tuple[type, Callable[..., Any]]] = []
    open_calls = 0

    def record(style: Any, module: Any, mesh: Any) -> None:
        path = paths.get(id(module))
        if path is None:
            return
        axis = names_of(mesh)[0]
        for part in _parts(style):
            inputs = _first(part, _INPUTS)
            keywords = getattr(part, "desired_input_kwarg_layouts", None) or {}
            found.append(Activation(path, axis, inputs, keywords, _first(part, _OUTPUTS)))

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(style: Any, module: Any, mesh: Any) -> Any:
            nonlocal open_calls
            open_calls += 1
            try:
                out = original(style, module, mesh)
            finally:
                open_calls -= 1
            if open_calls == 0:
                record(style, module, mesh)
            return out

        return apply

    kinds = [ParallelStyle]
    for kind in kinds:
        kinds += [sub for sub in kind.__subclasses__() if sub not in kinds]
        if "_apply" in vars(kind):
            kept.append((kind, kind._apply))
    for kind, original in kept:
        kind._apply = wrapped(original)
    try:
        yield
    finally:
        for kind, original in kept:
            kind._apply = original


def _is_within_fsdp(model: torch.nn.Module, path: str) -> bool:
    from torch.distributed.fsdp import FSDPModule

    parents = [path.rsplit(".", i)[0] for i in range(1, path.count(".") + 1)] + [""] * bool(path)
    return any(isinstance(model.get_submodule(parent), FSDPModule) for parent in parents)


def _read_fsdp(model: torch.nn.Module, plan: Plan) -> set[str]:
    """The axes of fully_shard; adds to the plan its policies of mixed precision, and what it frees after use."""
    from torch.distributed.fsdp import FSDPModule

    axes: set[str] = set()
    paths = {id(module): path for path, module in model.named_modules()}
    for path, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        state = module._get_fsdp_state()
        policy = state._mp_policy
        inputs = policy.param_dtype if policy.cast_forward_inputs else None
        if inputs or policy.output_dtype:
            plan.casts.append(Cast(path, inputs, policy.output_dtype))
        groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
        # The default of reshard_after_forward is False for the outermost module: its backward pass comes next.
        kept = getattr(state, "_auto_reshard_after_forward", False) and not _is_within_fsdp(model, path)
        for group in [group for group in groups if group is not None]:
            freed = getattr(group, "post_forward_mesh_info", None) is not None and not kept
            axes |= set(names_of(group.mesh_info.mesh))
            for parameter in group.fsdp_params:
                policy = getattr(parameter, "mp_policy", policy)
                info = parameter._module_info
                owners = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names)]
                names = [f"{paths[id(owner)]}.{name}".lstrip(".") for owner, name in owners]
                if policy.param_dtype or policy.reduce_dtype:
                    precision = Precision(policy.param_dtype, policy.reduce_dtype or policy.param_dtype)
                    plan.precision.update(dict.fromkeys(names, precision))
                if freed:
                    plan.freed.update(names)
    return axes


def _check_styles(model: torch.nn.Module, plan: Mapping[str, Any]) -> None:
    """PyTorch only warns of names that match no module."""
    from torch.distributed.tensor.parallel import ParallelStyle

    paths = [path for path, _ in model.named_modules()]
    for name, style in plan.items():
        if not isinstance(style, ParallelStyle):
            raise UsageError(f"the plan of '{name}': expected a parallel style or placements, but got {type(style).__name__}")
        if not any(fnmatch.fnmatchcase(path, name) for path in paths):
            raise UsageError(f"the plan names the module '{name}', which the model does not have")


def _applied(model: torch.nn.Module, plan: Any, mesh: Any, found: list[Activation]) -> torch.nn.Module:
    """A copy of the model to which the plan was applied."""
    from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

    if isinstance(plan, torch.nn.Module):
        return plan
    made = copy.deepcopy(model)
    with _recorded(made, found):
        if callable(plan):
            returned = plan(made)
            return returned if isinstance(returned, torch.nn.Module) else made
        if mesh is None:
            raise UsageError("a plan of parallel styles needs mesh=, the DeviceMesh")
        if mesh.ndim > 1:
            if "tp" not in names_of(mesh):
                raise UsageError("a plan of parallel styles is for one mesh axis: give mesh one dim, or call one of them 'tp'")
            mesh = mesh["tp"]
        if not isinstance(plan, (Mapping, ParallelStyle)):
            raise UsageError(f"expected a plan: a function, a model, parallel styles or placements, but got {type(plan).__name__}")
        if isinstance(plan, Mapping):
            _check_styles(made, plan)
        return parallelize_module(made, mesh, plan)


def _parameter_dims(model: torch.nn.Module, axes: Mapping[str, int]) -> dict[str, list[list[str]]]:
    return {
        name: dims_of(f"parameter '{name}'", p.device_mesh, p.placements, p.ndim, axes)
        if isinstance(p, DTensor) or hasattr(p, "placements")
        else [[] for _ in p.shape]
        for name, p in model.named_parameters(remove_duplicate=False)
    }


def _placed(plan: Any) -> bool:
    """Whether the plan says the placements of parameters by their names: {"up.weight": [Replicate(), Shard(0)]}."""
    return isinstance(plan, Mapping) and all(isinstance(v, (list, tuple)) for v in plan.values())


def read_plan(model: torch.nn.Module, plan: Any, mesh: Any, data: Union[None, str, Sequence[str]]) -> Plan:
    found: list[Activation] = []
    parallel = None if _placed(plan) else _applied(model, plan, mesh, found)
    meshes = [p.device_mesh for p in parallel.parameters() if hasattr(p, "device_mesh")] if parallel else []
    if mesh is None and not meshes:
        raise UsageError("the plan places no parameter on a DeviceMesh; give mesh=")
    root = mesh if mesh is not None else _root_of(meshes[0])
    axes = dict(zip(names_of(root), root.shape))
    named = dict(model.named_parameters(remove_duplicate=False))  # tied weights have several names
    names = set(named)
    if parallel is None:
        for name in plan:
            if name not in names:
                raise UsageError(f"the plan places the parameter '{name}', which the model does not have")
        parameters = {
            name: dims_of(f"parameter '{name}'", root, plan.get(name, ()), p.ndim, axes) for name, p in named.items()
        }
    else:
        parameters = _parameter_dims(parallel, axes)
        if set(parameters) != names:
            raise UsageError("the plan's model has other parameters than the model: " + ", ".join(sorted(set(parameters) ^ names)))
    plan_read = Plan(axes, parameters, found, ())
    fsdp = _read_fsdp(parallel, plan_read) if parallel is not None else set()
    if data is None:
        used = {a.axis for a in found} | {axis for dims in parameters.values() for d in dims for axis in d}
        data = [axis for axis in axes if axis in fsdp or axis not in used]
    plan_read.data = (data,) if isinstance(data, str) else tuple(data)
    for axis in plan_read.data:
        if axis not in axes:
            raise UsageError(f"data='{axis}': the mesh has the axes {', '.join(axes)}")
    return plan_read


__all__ = ["Activation", "Cast", "Plan", "Precision", "dims_of", "names_of", "read_plan", "sharding_text"]
