"""Errors of dtc as exceptions: the text that the command line prints, and the same as data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace


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
        message=_in_python(entry.get("message", "")),
        file=entry.get("file") or "",
        line=entry.get("line") or 0,
        column=entry.get("column") or 0,
        notes=tuple(_diagnostic(n) for n in entry.get("notes", ())),
    )


def _dims(found: "re.Match") -> str:
    return "dims={" + ", ".join(f'"{name}": {size}' for name, size in re.findall(r"--dim (\w+)=(\w+)", found[0])) + "}"


# Flags of the command line, and functions of the C API, in messages, and what they are in Python, the longest form first.
_SPELLINGS = (
    (
        re.compile(r"bind each with the option dim \(NAME=SIZE\), or with the shape of an argument that contains it \(dtc_\w+\)"),
        "bind each with dims={NAME: SIZE}, or by a tensor for an argument whose shape contains it",
    ),
    (re.compile(r"--dim \w+=\w+(?: --dim \w+=\w+)*"), _dims),
    (re.compile(r"--bind (\S+?)=(?:FILE|\w+)\.npy"), r'bind={"\1": VALUE}'),
    (re.compile(r"--mesh (\w+=\w+:\w+(?:,\w+:\w+)*(?:,…)?)"), r'mesh="\1"'),
    (re.compile(r"--sharding '(\S+?)=([^']*)'"), r'shardings={"\1": "\2"}'),
    (re.compile(r"--(dim|sharding)(?=(?: \S+)?:)"), r"\1s"),
    (re.compile(r"--(bind|mesh|entry)(?=(?: \S+)?:)"), r"\1"),
    (re.compile(r"--(dim|sharding)(?![\w-])"), r"\1s="),
    (re.compile(r"--(bind|mesh|entry)(?![\w-])"), r"\1="),
    (re.compile(r"--(policy|recompute|reduce-dtype|reduction-order|rings) ([\w-]+)"), r'options={"\1": "\2"}'),
    (re.compile(r"--(policy|recompute|reduce-dtype|reduction-order|rings)(?![\w-])"), r'options["\1"]'),
)


def _in_python(text: str) -> str:
    """A message with the arguments of dtc.compile instead of flags. Indented lines quote the program."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if not line.startswith(" ") and ("--" in line or "(dtc_" in line):
            for flag, argument in _SPELLINGS:
                lines[i] = flag.sub(argument, lines[i])
    return "\n".join(lines)


def make_error(status: int, text: str, diagnostics_json: str) -> Error:
    """The exception for a status of the C API. `diagnostics_json`: as dtc_error_json returns it."""
    diagnostics = tuple(_diagnostic(d) for d in json.loads(diagnostics_json))
    return _CLASSES.get(status, InternalError)(_in_python(text.rstrip("\n")), diagnostics)


def renamed(error: Error, old: str, new: str) -> Error:
    """The error with another name of the program's file."""

    def changed(d: Diagnostic) -> Diagnostic:
        return replace(d, file=new if d.file == old else d.file, message=d.message.replace(old, new), notes=tuple(map(changed, d.notes)))

    return type(error)(str(error).replace(old, new), tuple(map(changed, error.diagnostics)))


def make_command_error(status: int, text: str) -> Error:
    """The same for a command line."""
    return _CLASSES.get(status, InternalError)(text.rstrip("\n"))
