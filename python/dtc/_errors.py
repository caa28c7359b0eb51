"""Errors of dtc as exceptions: the text that the command line prints, and the same as data."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnostic:
    """An error, a warning or a note. A line of 0: it has no location."""

    severity: str
    kind: str  # `dtc help KIND` explains it; empty for notes
    message: str
    file: str = ""
    line: int = 0
    column: int = 0  # from 1, in characters
    notes: tuple["Diagnostic", ...] = ()


class Error(Exception):
    """What went wrong; `str()` of it shows the lines of the program with carets."""

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()):
        super().__init__(text)
        self.diagnostics = diagnostics


class ProgramError(Error, ValueError):
    """The program, or a tensor that it was given, is wrong."""


class UsageError(Error, ValueError):
    """The call is wrong: an option, a number of arguments."""


class MachineError(Error, RuntimeError):
    """The machine cannot do it: out of memory, no GPU, a library is missing."""


class InternalError(Error, RuntimeError):
    """A bug in dtc: please report it with the program."""


for _class in (Diagnostic, Error, ProgramError, UsageError, MachineError, InternalError):
    _class.__module__ = "dtc"  # where they are found

_CLASSES = {1: ProgramError, 2: UsageError, 3: MachineError, 70: InternalError}


def _diagnostic(entry: dict) -> Diagnostic:
    return Diagnostic(
        severity=entry.get("severity", "error"),
        kind=entry.get("kind") or "",
        message=entry.get("message", ""),
        file=entry.get("file") or "",
        line=entry.get("line") or 0,
        column=entry.get("column") or 0,
        notes=tuple(_diagnostic(n) for n in entry.get("notes", ())),
    )


def make_error(status: int, text: str, diagnostics_json: str) -> Error:
    """The exception for a status of the C API. `diagnostics_json`: as dtc_error_json returns it."""
    diagnostics = tuple(_diagnostic(d) for d in json.loads(diagnostics_json))
    return _CLASSES.get(status, InternalError)(text.rstrip("\n"), diagnostics)
