"""Files of exported programs, with the user's names of dynamic dims."""

from __future__ import annotations

import json
import re
from typing import Any


def size_names(program: Any) -> dict[str, str]:
    """The names of the Dims that a torch.export.ExportedProgram was exported with, by its symbols: {"s77": "batch"}.

    Empty for a program that was loaded from a file: torch.export.save does not write them.
    """
    named: dict[str, str] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        for size in getattr(value, "shape", ()):
            environment = getattr(getattr(size, "node", None), "shape_env", None)
            if environment is None:
                continue
            given = getattr(environment, "source_name_to_debug_name", {})
            for symbol, sources in environment.var_to_sources.items():
                own = environment.replace(symbol)
                for source in sources:
                    name = given.get(source.name() if callable(source.name) else source.name, "")
                    # Names of the form s0 are those of symbols.
                    if own.is_Symbol and name.isidentifier() and name.isascii() and not re.fullmatch(r"[su]\d+", name):
                        named.setdefault(str(own), name)
            return {symbol: name for symbol, name in named.items() if list(named.values()).count(name) == 1}
    return named


def save(program: Any, path: Any) -> None:
    """torch.export.save with the names of dynamic dims, which dtc then has for symbolic sizes."""
    import torch
    from torch._export.serde.serialize import SerializeError

    from ._graph import not_in_files, without_sums

    names = size_names(program)
    program = _without_transforms(program)
    without_sums(program.graph_module)
    try:
        torch.export.save(program, path, extra_files={"dtc/sizes.json": json.dumps(names)} if names else None)
    except SerializeError as error:
        raise not_in_files(error, _failed(program, error)) from error


def _without_transforms(program: Any) -> Any:
    """The program with the transforms of torch.func in terms of aten ops."""
    from ._graph import unsupported

    called = {
        node.target.__name__: node
        for node in program.graph.nodes
        if str(getattr(node.target, "__module__", "")).startswith("torch._functorch.")
    }
    # PyTorch drops tangents when it decomposes the first, and the second has constants in place of its arguments.
    for name, transform in (("_make_dual", "torch.func.jvp"), ("_unwrap_for_grad", "torch.func.grad")):
        if name in called:
            message = f"unsupported op '{transform}': torch.export does not keep it right; use torch.compile(backend='dtc')"
            raise unsupported(message, called[name])
    return program.run_decompositions({}) if called else program


def _failed(program: Any, error: Exception) -> Any:
    """The node that the error names, or None."""
    found = re.match(r"Failed serializing node (\w+) in graph", str(error))
    return next((node for node in program.graph.nodes if found and node.name == found[1]), None)
