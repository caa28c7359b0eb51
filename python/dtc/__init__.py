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
from ._executable import Executable, Value
from ._processes import Processes, finalize, init_from_env
from ._reports import Page, Report, diff_page

__version__ = _core.version


def command(words: Sequence[str], input: Union[str, bytes] = "") -> str:
    """Runs a command line of dtc in this process and returns what it prints: command(["opt", "-"], input=text).

    An error is raised as `dtc.Error`.
    """
    if isinstance(words, str):
        raise TypeError(f"dtc.command takes the words one by one, {words.split()!r}, not one str")
    return _core.command([os.fspath(word) for word in words], input)


def diff(
    a: Union[Executable, str, os.PathLike], b: Union[Executable, str, os.PathLike], flags: Sequence[str] = ()
) -> Page:
    """The page of `dtc diff`: what changed from one program to the other, side by side.

    Programs are executables, texts or files; `flags` are those of `dtc diff`, such as ["--max-bytes", "+1%"]. A limit
    that is exceeded is raised as `dtc.ProgramError`.
    """
    return diff_page(a, b, flags)


def _installed(*folders: str) -> str:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *folders)
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path}: the installed package has this folder, and a build tree has not")
    return path


def get_docs() -> str:
    """The folder of the documentation and the examples: README.md, docs/, examples/, and the files that they refer to."""
    return _installed("share", "doc", "dtc")


def get_include() -> str:
    """The folder of the C API's headers: #include <dtc/dtc.h>."""
    return _installed("include")


def get_library_dir() -> str:
    """The folder of libdtc.so.1."""
    return _installed("lib")


def get_cmake_dir() -> str:
    """The folder for CMake's find_package(dtc): cmake -Ddtc_DIR=..."""
    return _installed("lib", "cmake", "dtc")


def get_pkgconfig_dir() -> str:
    """The folder of dtc.pc, for PKG_CONFIG_PATH."""
    return _installed("lib", "pkgconfig")


__all__ = [
    "Diagnostic",
    "Error",
    "Executable",
    "InternalError",
    "MachineError",
    "Page",
    "Processes",
    "ProgramError",
    "Report",
    "UsageError",
    "Value",
    "command",
    "compile",
    "diff",
    "finalize",
    "get_cmake_dir",
    "get_docs",
    "get_include",
    "get_library_dir",
    "get_pkgconfig_dir",
    "init_from_env",
]
