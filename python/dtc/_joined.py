"""Executables of several processes."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence, Union

from . import _core
from ._executable import Executable
from ._processes import refuse


class JoinedExecutable(Executable):
    """Of several processes, which all make its calls: what one of them raises before it meets the others, all raise."""

    def __init__(self, context: "_core.Context", *args: Any, **named: Any):
        self._context = context
        self._calls = context.calls  # that had met the others before the one that is being made
        super().__init__(*args, **named)

    def _together(self, call: Callable[..., Any], args: tuple, named: Mapping[str, Any]) -> Any:
        self._calls = self._context.calls
        try:
            return call(*args, **named)
        except Exception as error:
            refuse(self._context, self._calls, error)
            raise

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._together(super().__call__, args, named)

    def run_shards(self, *args: Any, **named: Any) -> tuple:
        return self._together(super().run_shards, args, named)

    def _run_kept(self, args: Sequence[Any], keep: Sequence[int]) -> tuple:
        return self._together(super()._run_kept, (args, keep), {})

    def bind_file(self, path: Union[str, os.PathLike]) -> "Executable":
        return self._together(super().bind_file, (path,), {})

    def _for_sizes(self, args: tuple) -> "_core.Executable":
        core = super()._for_sizes(args)
        self._calls = self._context.calls  # the compilation has met the others; the run is yet to
        return core
