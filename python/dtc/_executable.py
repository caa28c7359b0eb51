"""Compiled programs, called with tensors of NumPy, PyTorch, JAX or any package with DLPack."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _core
from ._arguments import FixedArguments, expanded, flattened, shape_of
from ._errors import Error, UsageError
from ._reports import Page, Report, Source

# Compiled programs with symbolic sizes that an Executable keeps, one per combination of sizes.
DEFAULT_CACHE_SIZE = 16


@dataclass(frozen=True)
class Value:
    """An argument or a result of a program."""

    name: str
    user_name: str  # in the program that was imported, "" if it has none
    dtype: str  # "f32"
    shape: tuple[int, ...]  # of the whole tensor; the sizes of the last call where they are symbolic
    sharding: str  # "{dp, _}"; "" if every device holds the whole tensor
    donated: bool  # an argument: its value is lost in a run
    carried: Optional[int]  # the result that is this argument's next value, or the argument

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{self.sharding}"


class _Exported:
    """A capsule of DLPack as the object with __dlpack__ that packages ask for."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _to_jax(capsule: Any) -> Any:
    import jax.dlpack

    return jax.dlpack.from_dlpack(_Exported(capsule))


# How results become tensors of the package that a type belongs to; see _core's toPython.
_LIKE: dict[type, Any] = {}


def _like_of(tensor: Any) -> Any:
    kind = type(tensor)
    try:
        return _LIKE[kind]
    except KeyError:
        pass
    package = kind.__module__.partition(".")[0]
    if package in ("jax", "jaxlib"):
        like: Any = _to_jax
    elif hasattr(kind, "__dlpack_c_exchange_api__"):
        like = sys.modules["torch"].Tensor if package == "torch" else kind
    else:
        like = None
    _LIKE[kind] = like
    return like


def _like_named(name: Any) -> Any:
    if name == "numpy":
        return None
    if name == "torch":
        import torch

        return torch.Tensor
    if name == "jax":
        return _to_jax
    if isinstance(name, type):
        package = name.__module__.partition(".")[0]
        if package == "numpy":
            return None
        if package in ("jax", "jaxlib"):
            return _to_jax
        if hasattr(name, "__dlpack_c_exchange_api__"):
            return name
    raise UsageError(f"results={name!r}: expected 'numpy', 'torch', 'jax' or a tensor type")


class Executable:
    """A compiled program. Calls of one executable from several threads take turns.

    A program with symbolic sizes is compiled at its first call with each combination of sizes; the
    `cache_size` most recently used ones are kept.
    """

    def __init__(
        self,
        compile_for: Callable[[Sequence[Optional[Sequence[int]]]], "_core.Executable"],
        source: Source,
        results: Any = None,
        cache_size: int = DEFAULT_CACHE_SIZE,
        bound: Optional[Mapping[str, Any]] = None,
    ):
        if isinstance(cache_size, bool) or not isinstance(cache_size, int) or cache_size < 0:
            raise UsageError(f"cache_size={cache_size!r}: expected an integer of at least 0")
        self._compile_for = compile_for
        self._source = source
        self._like = _like_named(results) if results is not None else None
        self._has_like = results is not None
        self._cache_size = cache_size
        self._sized: OrderedDict[tuple, _core.Executable] = OrderedDict()
        self._lock = threading.Lock()
        self._static: Optional[_core.Executable] = None
        self._last_shapes: Sequence[Optional[Sequence[int]]] = ()  # of the last call, with symbolic sizes
        # Tensors of arguments that calls do not give, by name; and where they are among the arguments.
        self._bound: dict[str, Any] = dict(bound or {})
        self._from_files: set[int] = set()  # positions of arguments that the executable holds
        self._files: list[str] = []  # that were bound
        self._carries = False  # whether the last call made new values of those
        self._filled: Optional[list[Any]] = None
        self._fixed = FixedArguments()
        try:
            self._static = compile_for([])
        except Error as error:
            if not any(d.kind == "unbound-sizes" for d in error.diagnostics):
                raise
            self._signature = source.signature()
            self._describe_values(self._signature.describe(False), self._signature.describe(True))
        else:
            self._describe(self._static)

    def _keep(self, temporaries: Iterable[Any]) -> None:
        """Files that it is compiled from, which are removed with it."""
        for temporary in temporaries:
            weakref.finalize(self, remove_temporary, temporary)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "an Executable cannot be pickled or copied: compile the program again, or save it with "
            "`dtc compile FILE --emit package` and compile that file"
        )

    # --- what it is ---

    def _describe(self, core: "_core.Executable") -> None:
        self._from_files |= {i for i, held in enumerate(core.held()) if held}  # weights of a package
        self._describe_values(core.describe(False), core.describe(True))

    def _describe_values(self, arguments: Sequence[tuple], results: Sequence[tuple]) -> None:
        self._arguments = tuple(Value(*v) for v in arguments)
        self._results = tuple(Value(*v) for v in results)
        self._names = tuple(v.name for v in self._arguments)
        self._single = len(self._results) == 1
        if self._bound or self._from_files:
            self._place_bound()

    def _any(self) -> "_core.Executable":
        if self._static is not None:
            return self._static
        if self._sized:
            return next(reversed(self._sized.values()))
        raise UsageError("this program has symbolic sizes: it is compiled when it is called with tensors")

    @property
    def arguments(self) -> tuple[Value, ...]:
        self._any()
        return self._arguments

    @property
    def results(self) -> tuple[Value, ...]:
        self._any()
        return self._results

    @property
    def num_arguments(self) -> int:
        return len(self._names)

    @property
    def mesh(self) -> dict[str, int]:
        """The axes of the mesh and their sizes; {} without a mesh."""
        return self._any().mesh

    @property
    def num_devices(self) -> int:
        return self._any().num_devices

    @property
    def local_devices(self) -> range:
        """The devices that this process runs: all of them, unless it has joined others."""
        first, count = self._any().local_devices
        return range(first, first + count)

    def shard_shapes(self, name: str) -> list[tuple[int, ...]]:
        """The shapes of an argument's shards, or of a result's, one for each of local_devices."""
        core = self._any()
        for of_results, values in ((False, self._arguments), (True, self._results)):
            for i, v in enumerate(values):
                if name in (v.name, v.user_name):
                    return core.shard_shapes(of_results, i)
        raise UsageError(f"no argument or result '{name}'")

    @property
    def text(self) -> str:
        """The program that runs: scheduled, with its memory plan."""
        return self._any().text

    @property
    def warnings(self) -> str:
        return self._any().warnings

    @property
    def copied_bytes(self) -> int:
        """Bytes that the last call copied between tensors and its own memory; 0 if all were used in place."""
        return self._any().copied_bytes

    def __repr__(self) -> str:
        if self._static is None and not self._sized:
            return f"<dtc.Executable {self._source.name}({', '.join('%' + n for n in self._names)}): symbolic sizes>"
        arguments, results = (", ".join(map(str, values)) for values in (self._arguments, self._results))
        return f"<dtc.Executable {self._source.name}({arguments}) -> ({results})>"

    # --- calls ---

    def __call__(self, *args: Any, out: Optional[Sequence[Any]] = None, **named: Any) -> Any:
        """Runs the program on whole tensors; results are tensors of the package of the first argument.

        Arguments may be given by name. `out`: tensors that the results are written to. One result is
        returned as it is, several as a tuple.
        """
        if out is not None and not isinstance(out, (tuple, list)):
            raise TypeError(f"out= must be a tuple or list with a tensor for each result, not {type(out).__name__}")
        if out is not None:
            _check_gradients(out)
        if named:
            args = self._in_order(args, named)
        try:
            return self._call(args, out)
        except TypeError:
            tensors = self._tensors_of(args)
            if len(tensors) == len(args) and all(a is b for a, b in zip(tensors, args)):
                raise
        return self._call(tensors, out)

    def _call(self, args: tuple, out: Optional[Sequence[Any]]) -> Any:
        if self._has_like:
            like = self._like
        else:
            like = _like_of(args[0]) if args else None
        if self._filled is not None:
            return self._call_bound(args, out, like)
        core = self._static or self._for_sizes(args)
        values = core.run(args, out, like, False)
        return values[0] if self._single else values

    def _run_kept(self, args: Sequence[Any], keep: Sequence[int]) -> tuple:
        """Of a program without symbolic sizes: None stands for the value that an earlier call was told to keep."""
        assert self._static is not None
        return self._static.run(args, None, self._like, False, keep)

    # --- arguments that are given once ---

    def bind(self, tensors: Mapping[str, Any]) -> "Executable":
        """Gives arguments tensors for all calls, by name: f.bind({"w": weight}). They are used where they are.

        Calls then take the other arguments only, and return the results that update none of the bound ones:
        after each call, those are copied into the tensors that they update.
        """
        positions = self._positions()
        for name in tensors:
            if name not in positions:
                raise UsageError(f"no argument '{name}'; the arguments are {', '.join(self._names)}")
        self._bound = {**self._bound, **tensors}
        self._place_bound()
        return self

    def bind_file(self, path: Union[str, os.PathLike]) -> "Executable":
        """Reads arguments from a file, by name: .npz, .safetensors, or the weights of a .pt2 or .onnx program.

        The executable holds them, and keeps those that a call updates for the next call.
        """
        file = os.fspath(path)
        if self._static is not None:
            found = self._static.bind_file(file)
            self._files.append(file)
        else:  # bound to each program that is compiled
            found = self._signature.find(file)
            with self._lock:
                self._files.append(file)
                for core in self._sized.values():
                    core.bind_file(file)
        self._from_files |= {i for i, bound in enumerate(found) if bound}
        if self._from_files:
            self._place_bound()
        return self

    def _positions(self) -> dict[str, int]:
        """Of the arguments, by both of their names."""
        return {name: i for i, v in enumerate(self._arguments) for name in (v.name, v.user_name) if name}

    def _place_bound(self) -> None:
        known = self._positions()
        self._filled = [None] * len(self._arguments)
        positions = set(self._from_files)
        for name, tensor in self._bound.items():
            self._filled[known[name]] = tensor
            positions.add(known[name])
            self._from_files.discard(known[name])
        self._open = [i for i in range(len(self._arguments)) if i not in positions]
        updated = {i for i, v in enumerate(self._results) if v.carried in positions}
        targets = [(i, v.carried) for i, v in enumerate(self._results) if v.carried is not None and i in updated]
        self._updates = [(i, argument) for i, argument in targets if argument not in self._from_files]
        self._has_state = len(self._updates) < len(updated)
        self._returned = [i for i in range(len(self._results)) if i not in updated]

    def _with_bound(self, args: tuple) -> list[Any]:
        """All arguments: those of a call, and those that were given once; None for those of files."""
        if self._filled is None:
            return list(args)
        if len(args) != len(self._open):
            names = ", ".join(self._names[i] for i in self._open)
            raise TypeError(f"expected {_counted(len(self._open), 'argument')} ({names}), got {len(args)}")
        values = list(self._filled)
        for i, tensor in zip(self._open, args):
            values[i] = tensor
        return values

    def _call_bound(self, args: tuple, out: Optional[Sequence[Any]], like: Any) -> Any:
        if self._static is None and self._has_state:
            raise UsageError(
                "a program with symbolic sizes cannot keep arguments of a file that it updates: bind tensors, "
                "or give dims="
            )
        values = self._with_bound(args)
        core = self._static or self._for_sizes(tuple(values))  # which describes the results of a new program
        if self._carries:
            core.carry_over()
        results = core.run(values, out, like, False)
        self._carries = self._has_state
        for result, argument in self._updates:
            _overwrite(values[argument], results[result])
        if len(self._returned) == 1:
            return results[self._returned[0]]
        return tuple(results[i] for i in self._returned)

    def run_shards(self, *args: Any, out: Optional[Sequence[Any]] = None) -> tuple:
        """Runs the program on one tensor per argument and device: first all devices' shards of the first argument.

        The results come in the same order. In several processes, devices are those of this one (`local_devices`).
        """
        core = self._any()
        if out is not None:
            _check_gradients(out)
        like = self._like if self._has_like else (_like_of(args[0]) if args else None)
        return tuple(core.run(args, out, like, True))

    def carry_over(self) -> None:
        """Makes `carry` results the arguments of the next call, which is then given None for those."""
        self._any().carry_over()

    def _open_names(self) -> list[str]:
        """Of the arguments that calls give."""
        return [self._names[i] for i in self._open] if self._filled is not None else list(self._names)

    def _tensors_of(self, args: tuple) -> tuple:
        """Those among arguments that are given by position, also within dicts, lists and tuples."""
        names = self._open_names()
        return tuple(self._fixed.tensors_of(flattened(args, self._fixed.names(names)) or args, len(names)))

    def _in_order(self, args: tuple, named: Mapping[str, Any]) -> tuple:
        names = self._open_names()
        args = self._tensors_of(args)
        values = dict(zip(names, args))
        for name, value in self._fixed.tensors_named(expanded(named, self._fixed.names(names))).items():
            if name not in names:
                raise TypeError(f"no argument '{name}'; the arguments are {', '.join(names)}")
            if name in values:
                raise TypeError(f"argument '{name}' is given twice")
            values[name] = value
        missing = [n for n in names if n not in values]
        if missing:
            raise TypeError(f"missing arguments: {', '.join(missing)}")
        return tuple(values[n] for n in names)

    def _for_sizes(self, args: tuple) -> "_core.Executable":
        if len(args) != len(self._names):
            missing = ", ".join(f"%{name}" for name in self._names[len(args):])
            raise TypeError(
                f"expected {_counted(len(self._names), 'argument')}, got {len(args)}" + (missing and f": no {missing}")
            )
        shapes = tuple(None if a is None else shape_of(name, a) for name, a in zip(self._names, args))
        with self._lock:
            core = self._sized.get(shapes)
            self._last_shapes = shapes
            if core is not None:
                self._sized.move_to_end(shapes)
                return core
            try:
                core = self._compile_for(shapes)
            except Error as error:
                missing = [name for name, a in zip(self._names, args) if a is None]
                if missing and any(d.kind == "unbound-sizes" for d in error.diagnostics):
                    raise TypeError(f"'{missing[0]}' is None, but symbolic sizes follow from its shape") from error
                raise
            for file in self._files:
                core.bind_file(file)
            self._describe(core)
            self._sized[shapes] = core
            while len(self._sized) > self._cache_size:
                self._sized.popitem(last=False)
            return core

    def _converted(self, args: tuple) -> dict[str, Any]:
        """The arguments as a call converts them, by name, for a file."""
        try:
            values = self._with_bound(args)
            core = self._static or self._for_sizes(tuple(values))
            arrays = core.values(values)
        except TypeError:
            tensors = self._tensors_of(args)
            if len(tensors) == len(args) and all(a is b for a, b in zip(tensors, args)):
                raise
            return self._converted(tensors)
        return {name: array for name, array in zip(self._names, arrays) if array is not None}

    # --- what it does: the reports of the command line; with symbolic sizes, those of the last call ---

    def _size_flags(self) -> list[str]:
        sizes: dict[str, int] = {}
        for argument, shape in zip(self._signature.describe(False) if self._last_shapes else (), self._last_shapes):
            for symbol, size in zip(argument[3], shape or ()):
                if isinstance(symbol, str) and symbol.isidentifier():
                    sizes[symbol] = size
        return [word for symbol, size in sizes.items() for word in ("--dim", f"{symbol}={size}")]

    def explain(self, value: str = "") -> Report:
        """Why a value is sharded as it is; without a value: every collective, why it is needed and what it costs."""
        words = [_percent(value)] if value else []
        if not value and self._source.target() == "cpu":
            words += ["--target", "cpu"]  # for a GPU it would also list rings
        return self._source.report("explain", *words, *self._size_flags())

    def view(self, value: str = "", what: str = "") -> Report:
        """A drawing: the shards of a value, or what='mesh', 'layout', 'graph' or 'schedule'."""
        words = ([_percent(value)] if value else []) + (["--what", what] if what else []) + self._size_flags()
        return self._source.report("view", *words, svg=what != "layout")  # which is text only

    def report(self, target: str = "") -> Page:
        """The page of `dtc report`: source, graph, shards, schedule, memory, communication and kernels.

        It is that of the backend the program was compiled for, or of `target`: "cpu", or a GPU such as "sm_90a".
        """
        return self._source.page(target, *self._size_flags())

    def stats(self, *args: Any) -> Report:
        """Times, bytes and throughput of each step, with these arguments (random ones if none are given)."""
        return self._source.run_report(self, args, "--stats")

    def trace(self, *args: Any, path: Optional[Union[str, os.PathLike]] = None) -> Report:
        """A trace of one run for https://ui.perfetto.dev, as JSON; written to `path` if given."""
        report = self._source.run_report(self, args, "--trace", "-")
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(report.text)
        return report


def remove_temporary(temporary: Any) -> None:
    """Removes a NamedTemporaryFile or a TemporaryDirectory."""
    temporary.close() if hasattr(temporary, "close") else temporary.cleanup()


def _check_gradients(out: Sequence[Any]) -> None:
    """As PyTorch's out= does: autograd would not see that a tensor is written."""
    for i, tensor in enumerate(out):
        if getattr(tensor, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
            raise UsageError(
                f"out[{i}] requires gradients, which a run does not record: give its .detach(), or call within torch.no_grad()"
            )


def _overwrite(tensor: Any, value: Any) -> None:
    if hasattr(tensor, "copy_"):
        import torch

        with torch.no_grad():
            tensor.copy_(torch.from_dlpack(value) if not isinstance(value, torch.Tensor) else value)
    else:
        tensor[...] = value


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _percent(name: str) -> str:
    return name if name.startswith(("%", "@", "in ")) else "%" + name
