"""Several processes, started by mpirun, srun or torchrun, that run programs together."""

from __future__ import annotations

import atexit
from typing import Optional

from . import _core
from ._errors import Error, UsageError


class Processes:
    """What `dtc.init_from_env()` returns: this process among those that run programs together."""

    def __init__(self, context: "_core.Context"):
        self._context = context
        self.rank: int = context.rank
        self.size: int = context.processes

    def __repr__(self) -> str:
        return f"<dtc.Processes: rank {self.rank} of {self.size}>"


_joined: Optional[Processes] = None
_left = False


def init_from_env(*, threads: Optional[int] = None, timeout: float = 600) -> Processes:
    """Joins the processes that mpirun or srun has started with this one, through MPI, or torchrun, through TCP.

    From then on, programs that `dtc.compile` compiles run on all of them: each process has a part of the mesh's
    devices (`Executable.local_devices`), passes their shards and receives theirs (`Executable.run_shards`). All
    processes make the same calls of dtc.compile and of executables, in the same order. An error in one of them is
    raised in all; after a run that failed, every further call raises an error.

    threads: worker threads of this process; by default the cores that it is bound to, else its share of the host's.
    timeout: after so many seconds without progress in a collective, the run fails in all processes.
    """
    global _joined
    if _joined is not None:
        raise UsageError("dtc.init_from_env was called before in this process")
    if _left:
        raise UsageError("this process has left the others: a process joins once")
    settings = [("comm-timeout", repr(float(timeout)))]
    if threads is not None:
        settings.append(("threads", str(threads)))
    _joined = Processes(_core.Context(settings, True))
    atexit.register(_leave_at_exit)
    return _joined


def finalize() -> None:
    """Waits for all processes, which all call this, and leaves them: executables of this process can run no more.

    Without this call it happens when Python exits.
    """
    global _joined, _left
    if _joined is None:
        raise UsageError("dtc.finalize needs dtc.init_from_env before it")
    joined, _joined, _left = _joined, None, True
    joined._context.leave()


def _leave_at_exit() -> None:
    if _joined is None:
        return
    try:
        finalize()
    except Error:  # raised before, or that of a process that goes on without this one, which raises it
        pass


def refuse(context: "_core.Context", calls: int, error: Exception) -> None:
    """After an exception in a call that all processes make: if it has not met the others, their call fails, too.

    calls: how many calls had met them before it.
    """
    if context.calls == calls:
        context.refuse(str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}")


def joined() -> "Optional[_core.Context]":
    return _joined._context if _joined is not None else None


def joined_context(threads: Optional[int]) -> "Optional[_core.Context]":
    """The context of the processes, if this one has joined others."""
    if _joined is None:
        return None
    if threads is not None:
        raise UsageError("in several processes, threads= is given to dtc.init_from_env")
    return _joined._context
