"""dtc, the distributed tensor compiler: programs as text, called with tensors.

>>> import dtc, numpy as np
>>> f = dtc.compile('''
... func @main(%x: f32[4], %y: f32[4]) -> (%z: f32[4]) {
...   %z = add %x, %y
...   return %z
... }
... ''')
>>> f(np.ones(4, np.float32), np.ones(4, np.float32))
array([2., 2., 2., 2.], dtype=float32)
"""

import os
from typing import Sequence, Union

from . import _core
from ._compile import compile
from ._errors import Diagnostic, Error, InternalError, MachineError, ProgramError, UsageError
from ._executable import Executable, Report, Value

__version__ = _core.version


def command(words: Sequence[str], input: Union[str, bytes] = "") -> str:
    """Runs a command line of dtc in this process and returns what it prints: command(["opt", "-"], input=text).

    An error is raised as `dtc.Error`.
    """
    if isinstance(words, str):
        raise TypeError(f"dtc.command takes the words one by one, {words.split()!r}, not one str")
    return _core.command([os.fspath(word) for word in words], input)


__all__ = [
    "Diagnostic",
    "Error",
    "Executable",
    "InternalError",
    "MachineError",
    "ProgramError",
    "Report",
    "UsageError",
    "Value",
    "command",
    "compile",
]
