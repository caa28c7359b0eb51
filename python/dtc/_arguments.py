"""Tensors among the arguments of a call, also those in dicts, lists and tuples, as an exported model takes them."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Optional, Sequence

CONTAINERS = (dict, list, tuple)


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Of nested containers, with the ends of the names that PyTorch's export gives them: `_key_0`.

    None is not an argument of an exported program.
    """
    if isinstance(value, CONTAINERS):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            name = re.sub(r"[^0-9A-Za-z_]", "_", str(key))
            yield from leaves_of(inner, f"{path}_{name}")
    elif value is not None:
        yield path, value


def flattened(args: Sequence[Any], names: Sequence[str]) -> Optional[tuple[Any, ...]]:
    """The tensors in the order of the arguments of these names; None: the arguments have no containers, or others."""
    if not any(isinstance(a, CONTAINERS) for a in args):
        return None
    flat: list[Any] = []
    for a in args:
        if not isinstance(a, CONTAINERS):
            if a is not None:
                flat.append(a)
            continue
        leaves = dict(leaves_of(a))
        taken = names[len(flat) : len(flat) + len(leaves)]
        base = next((taken[0][: -len(path)] for path in leaves if taken and taken[0].endswith(path)), None)
        if leaves and (base is None or {base + path for path in leaves} != set(taken)):
            return None
        flat += [leaves[name[len(base or "") :]] for name in taken]
    return tuple(flat)


def expanded(named: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The same of arguments that are given by name."""
    flat: dict[str, Any] = {}
    for name, value in named.items():
        if name not in names and isinstance(value, CONTAINERS):
            flat.update((name + path, leaf) for path, leaf in leaves_of(value))
        else:
            flat[name] = value
    return flat


class FixedArguments:
    """The arguments of an exported program that are not tensors: they keep the values that they had at the export.

    `values`: by name, None included; `positions`: of the others among all arguments but those that are None.
    """

    def __init__(self, values: Mapping[str, Any] = {}, positions: Sequence[tuple[int, str]] = ()):
        self._values = values
        self._positions = positions

    def names(self, tensors: Sequence[str]) -> list[str]:
        """Of all arguments."""
        names = list(tensors)
        for position, name in self._positions:
            names.insert(position, name)
        return names

    def tensors_of(self, args: Sequence[Any], tensors: int) -> Sequence[Any]:
        """Those among arguments that are given by position: all of them, with what is fixed, or tensors alone."""
        given = [a for a in args if a is not None] if None in self._values.values() else list(args)
        if len(given) <= tensors:
            return given
        for position, name in reversed(self._positions):
            if position < len(given):
                self._check(name, given.pop(position))
        return given

    def tensors_named(self, named: Mapping[str, Any]) -> dict[str, Any]:
        for name, value in named.items():
            if name in self._values:
                self._check(name, value)
        return {name: value for name, value in named.items() if name not in self._values}

    def _check(self, name: str, given: Any) -> None:
        exported = self._values[name]
        if type(given) is not type(exported) or given != exported:
            shown = "a tensor" if hasattr(given, "shape") else repr(given)
            raise TypeError(f"argument '{name}' was exported as {exported!r} and cannot be {shown}")


def shape_of(name: str, tensor: Any) -> tuple[int, ...]:
    shape = getattr(tensor, "shape", None)
    if shape is not None:
        return tuple(shape)
    if isinstance(tensor, (int, float)) or hasattr(tensor, "__dlpack__"):
        return ()
    try:
        return memoryview(tensor).shape or ()
    except TypeError:
        raise TypeError(
            f"'{name}' must be a tensor of NumPy, PyTorch, JAX or any other package with DLPack, not {type(tensor).__name__}"
        ) from None
