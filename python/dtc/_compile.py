"""dtc.compile: text, files, and programs of PyTorch and JAX as executables."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import os
import re
import tempfile
import threading
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _core
from ._arguments import FixedArguments
from ._errors import Error, UsageError, renamed
from ._executable import DEFAULT_CACHE_SIZE, Executable, remove_temporary
from ._joined import JoinedExecutable
from ._processes import joined, joined_context, refuse
from ._reports import Source

MeshSizes = Mapping[str, Union[Mapping[str, int], str]]

_contexts: dict[tuple, "_core.Context"] = {}
_contexts_lock = threading.Lock()


def _context(settings: Sequence[tuple[str, str]]) -> "_core.Context":
    """One per combination of settings: its worker threads and compiled kernels are shared."""
    key = tuple(settings)
    with _contexts_lock:
        if key not in _contexts:
            _contexts[key] = _core.Context(list(settings))
        return _contexts[key]


def _mesh_texts(mesh: Union[None, str, Sequence[str], MeshSizes]) -> list[str]:
    """{"pod": {"dp": 2, "tp": 4}} as the values of --mesh: ["pod=dp:2,tp:4"]."""
    if mesh is None:
        return []
    if isinstance(mesh, str):
        return [mesh]
    if isinstance(mesh, Mapping) and all(isinstance(axes, (str, Mapping)) for axes in mesh.values()):
        return [
            f"{name}=" + (axes if isinstance(axes, str) else ",".join(f"{a}:{n}" for a, n in axes.items()))
            for name, axes in mesh.items()
        ]
    if isinstance(mesh, Sequence) and all(isinstance(text, str) for text in mesh):
        return list(mesh)
    raise TypeError(
        f'mesh={mesh!r}: expected the axes of each mesh, {{"pod": {{"dp": 2, "tp": 4}}}}, or text, "pod=dp:2,tp:4"'
    )


def _sharding_text(argument: str, sharding: Any) -> str:
    """("dp", None) as "{dp, _}"; several axes of one dim are a tuple."""
    if isinstance(sharding, str):
        return sharding

    def dim(axes: Any) -> str:
        if axes is None:
            return "_"
        if isinstance(axes, str):
            return axes
        if isinstance(axes, (tuple, list)) and axes and all(isinstance(axis, str) for axis in axes):
            return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
        raise TypeError(
            f"shardings: {argument!r} has {axes!r} for a dim: expected the name of an axis, a tuple of names, or None"
        )

    if isinstance(sharding, Sequence):
        return "{" + ", ".join(dim(axes) for axes in sharding) + "}"
    raise TypeError(
        f'shardings: {argument!r} has {sharding!r}: expected text, "{{dp, _}}", or a sequence, ("dp", None)'
    )


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_text(program: str) -> bool:
    """One line is a path if there is such a file, or if it ends as names of files do."""
    if "\n" in program:
        return True
    return re.search(r"[%@({]", program) is not None and not re.search(r"\.[A-Za-z]\w*$", program) and not os.path.exists(program)


def _check_characters(program: str, what: str) -> None:
    try:
        program.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} has the character {program[error.start]!r} at position {error.start}, which is half of a surrogate pair "
            "and has no UTF-8"
        ) from None


def _exported_file(program: Any) -> "tempfile._TemporaryFileWrapper":
    """A torch.export.ExportedProgram as a file, which lives as long as the executable reads its weights."""
    from .torch import save

    file = tempfile.NamedTemporaryFile(prefix="dtc-", suffix=".pt2")
    save(program, file.name)
    return file


def _file_of_bytes(program: bytes) -> "Optional[tempfile._TemporaryFileWrapper]":
    """The bytes of a .pt2 or .onnx file as a file, of which the executable reads the weights; None for text."""
    file = tempfile.NamedTemporaryFile(prefix="dtc-")
    file.write(program)
    file.flush()
    if _core.file_has_weights(file.name):
        return file
    file.close()
    return None


def _lowered_text(lowered: Any) -> str:
    """Of JAX, with the names of arguments and the places of ops, which versions before 0.4.36 do not print."""
    try:
        return lowered.as_text(debug_info=True)
    except TypeError:
        return lowered.as_text()


def _input_files(inputs: Mapping[str, Any]) -> "tuple[list[tuple[str, str]], Any]":
    """Values of inputs as settings that name .npy files, and the folder of those that had to be written."""
    folder = None
    settings = []
    for number, (name, value) in enumerate(inputs.items()):
        if isinstance(value, (str, os.PathLike)):
            path = os.fspath(value)
        else:
            import numpy

            folder = folder or tempfile.TemporaryDirectory(prefix="dtc-")
            path = os.path.join(folder.name, f"{number}.npy")
            numpy.save(path, numpy.asarray(value))
        settings.append(("bind", f"{name}={path}"))
    return settings, folder


def _state_of(program: Any) -> dict[str, Any]:
    """The parameters, buffers and constants of an ExportedProgram that its graph takes, by their names."""
    signature = program.graph_signature
    state = {**program.constants, **program.state_dict}
    taken = [
        *signature.inputs_to_parameters.values(),
        *signature.inputs_to_buffers.values(),
        *signature.inputs_to_lifted_tensor_constants.values(),
    ]
    return {name: state[name].detach() for name in taken}


def _fixed_of(program: Any) -> FixedArguments:
    given = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    values = {arg.name: arg.value for arg in given if hasattr(arg, "value")}
    counted = [arg.name for arg in given if not hasattr(arg, "value") or arg.value is not None]
    return FixedArguments(values, [(i, name) for i, name in enumerate(counted) if name in values])


# Other names for arguments of compile().
_ALIASES = {
    "bindings": "bind",
    "device": "backend",
    "device_mesh": "mesh",
    "dynamic_shapes": "dims",
    "in_shardings": "shardings",
    "num_threads": "threads",
    "optimization_level": "opt_level",
    "target": "backend",
}


def _suggesting(function: Callable[..., Executable]) -> Callable[..., Executable]:
    """Answers unknown keyword arguments with the nearest known one."""
    known = [name for name, p in inspect.signature(function).parameters.items() if p.kind == p.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Executable:
        for name in named:
            if name not in known and name != "program":
                near = _ALIASES.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
                hint = f"did you mean {near}=?" if near else f"options of `dtc run` are given as options={{{name.replace('_', '-')!r}: ...}}"
                raise TypeError(f"dtc.compile has no argument '{name}'; {hint}")
        return function(*args, **named)

    @functools.wraps(function)
    def together(*args: Any, **named: Any) -> Executable:
        """In several processes, all of them call it."""
        context = joined()
        if context is None:
            return call(*args, **named)
        calls = context.calls
        try:
            return call(*args, **named)
        except Exception as error:
            refuse(context, calls, error)
            raise

    return together


@_suggesting
def compile(
    program: Any,
    *,
    mesh: Union[None, str, Sequence[str], MeshSizes] = None,
    shardings: Optional[Mapping[str, Union[str, Sequence[Any]]]] = None,
    dims: Optional[Mapping[str, int]] = None,
    bind: Optional[Mapping[str, Any]] = None,
    entry: Optional[str] = None,
    backend: Optional[str] = None,
    opt_level: Optional[int] = None,
    threads: Optional[int] = None,
    results: Any = None,
    cache_size: int = DEFAULT_CACHE_SIZE,
    name: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> Executable:
    """Compiles a program.

    program: the text of a program (.dt or StableHLO), a path, the bytes of a .pt2 or .onnx file, a
        `torch.export.ExportedProgram`, or what `jax.jit(f).lower(...)` returns.
    mesh: sizes of meshes, {"pod": {"dp": 2, "tp": 4}} or "pod=dp:2,tp:4". A mesh that the program does not
        have is declared.
    shardings: shardings of arguments, {"x": "{dp, _}"} or {"x": ("dp", None)}.
    dims: symbolic sizes, {"B": 64}; without them they are inferred from the tensors of each call.
    bind: inputs of an ONNX model whose values its shapes depend on, {"axes": np.array([0, 1])}, or the path of a .npy
        file of one. The program then has no such arguments.
    entry: the function to compile (default: @main, or the only one that no other calls).
    backend: "cpu" (the default), "cuda", or "cuda-emu". A package has that of its compilation;
        one for a GPU may also run in "cuda-emu".
    opt_level: 0 to 3, as the flag -O of the command line.
    threads: worker threads; one per core by default.
    results: tensors to return: "numpy", "torch", "jax" or a tensor type; by default those of the first
        argument's package.
    cache_size: with symbolic sizes, how many compiled programs are kept.
    name: the name of the text in messages.
    options: further options of `dtc run` by name, such as {"policy": "cost", "no-overlap": True}.

    Errors of the program are raised as `dtc.ProgramError`, with the lines they refer to.
    """
    settings = [("mesh", text) for text in _mesh_texts(mesh)]
    settings += [("sharding", f"{argument}={_sharding_text(argument, sharding)}") for argument, sharding in (shardings or {}).items()]
    for symbol, size in (dims or {}).items():
        try:
            settings.append(("dim", f"{symbol}={operator.index(size)}"))
        except TypeError:
            raise UsageError(f"dims: {symbol!r} has {size!r}: expected an integer") from None
    bound_inputs, input_files = _input_files(bind or {})
    settings += bound_inputs
    if entry is not None:
        settings.append(("entry", entry))
    flags = [word for option, value in settings for word in ("--" + option, value)]
    lowering = [] if opt_level is None else [("opt-level", str(opt_level))]
    lowering += [(option.replace("_", "-"), _setting(value)) for option, value in (options or {}).items()]
    settings += ([] if backend is None else [("backend", backend)]) + lowering
    run_flags = [] if backend is None else ["--backend", backend]
    for option, value in lowering:
        if option == "opt-level":
            run_flags.append(f"-O{value}")
        elif value != "false":
            run_flags += ["--" + option] + ([] if value == "true" else [value])
    joint = joined_context(threads)
    context = joint or _context([] if threads is None else [("threads", str(threads))])

    file = None
    text: Union[None, str, bytes]
    bound: dict[str, Any] = {}
    if isinstance(program, str) and not program.strip():
        raise UsageError("dtc.compile was given an empty text: it takes the text of a program or a path")
    if isinstance(program, str) and _is_text(program):
        _check_characters(program, "the text of the program")
        text, label = program, name or "<text>"
    elif isinstance(program, bytes):
        text, label = program, name or "<bytes>"
        file = _file_of_bytes(program)
    elif isinstance(program, (str, os.PathLike)):
        text, label = None, os.fsdecode(program)
        _check_characters(label, "the path")
    elif hasattr(program, "graph_signature") and hasattr(program, "graph_module"):
        file = _exported_file(program)
        text, label = None, file.name
        bound = _state_of(program)
    elif hasattr(program, "as_text"):
        text, label = _lowered_text(program), name or "<lowered>"
    else:
        raise UsageError(
            "dtc.compile takes the text of a program, a path, bytes, a torch.export.ExportedProgram, or jax.jit(f).lower(...), "
            f"not {type(program).__name__}"
        )

    def compile_for(shapes: Sequence[Optional[Sequence[int]]]) -> "_core.Executable":
        try:
            return _core.compile(context, label, text, settings, [s if s is None else list(s) for s in shapes])
        except Error as error:
            if file is None or label != file.name:
                raise
            raise renamed(error, label, name or "<exported program>") from None  # a file of dtc's own

    temporaries = [t for t in (file, input_files) if t is not None]
    try:
        source = Source(label, text, flags, run_flags, settings)
        if joint is None:
            executable = Executable(compile_for, source, results, cache_size, bound)
        else:
            executable = JoinedExecutable(joint, compile_for, source, results, cache_size, bound)
    except BaseException:
        for temporary in temporaries:
            remove_temporary(temporary)
        raise
    executable._keep(temporaries)
    if hasattr(program, "graph_signature"):
        executable._fixed = _fixed_of(program)
    weights = label if text is None else file.name if file is not None else None
    if not bound and weights is not None and _core.file_has_weights(weights) and not executable._from_files:
        source.weights = weights
        executable.bind_file(weights)
    return executable
