"""Every kind of diagnostic has a page (`dtc help KIND`); its example triggers the kind, and the corrected example does not.

The pages are the sections of docs/errors.md, in the order of the kinds."""

import re
import shlex

DECLARED = r'DiagKind\s+\w+\s*(?:=\s*)?\{\s*"([^"]+)"'
# Kinds without a DiagKind (Environment::fail and --diagnostics give them), and those that have pages before their code.
OTHERS = {"command-line", "budget", "input", "machine", "bug", "general", "run-time", "call-size", "nan-given", "nan-made",
          "strict-nonfinite", "unfit-shardings", "collective-size"}


def declared(context):
    found = {}
    for path in context.files("lib/*.cpp", "lib/*.h", "include/*.h", "tools/*.cpp", "tools/*.h"):
        text = re.sub(r"^\s*//.*$", "", (context.root / path).read_text(errors="replace"), flags=re.M)
        for kind in re.findall(DECLARED, text):
            found.setdefault(kind, path)
    return found


def pages(text):
    """id -> (command, example, corrected text, corrected command)"""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        kind = re.match(r"`([^`]+)`", part)[1]
        blocks = re.findall(r"^```text\n(.*?)^```$", part, re.M | re.S)
        command = re.search(r"^`dtc ([^`]+)`:$", part, re.M)
        other = re.search(r"^Corrected: `dtc ([^`]+)`\.$", part, re.M)
        found[kind] = (command and command[1], blocks, other and other[1])
    return found


def run(context, command, text):
    return context.run(context.dtc, *shlex.split(command), text=text)


def complaint(context, kind, command, blocks, other):
    if not command:
        return None
    done = run(context, command, blocks[0])
    if done.returncode not in (1, 2):
        return f"`dtc {command}` of its example ends with code {done.returncode}\n{done.stderr[-800:]}"
    kinds = re.findall(r": error: .* \[([a-z0-9-]+)\]$|^error: .* \[([a-z0-9-]+)\]$", done.stderr, re.M)
    if kind not in {a or b for a, b in kinds}:
        return f"its example does not trigger it:\n{done.stderr[-800:]}"
    corrected = run(context, other or command, blocks[1] if len(blocks) > 1 else blocks[0])
    return f"its corrected example fails:\n{corrected.stderr[-800:]}" if corrected.returncode else None


def check(context):
    table = pages((context.root / "docs/errors.md").read_text())
    if list(table) != sorted(table):
        context.failed("kinds", "the sections of docs/errors.md are not in the order of their kinds")
    known = declared(context)
    for kind, path in sorted(known.items()):
        if kind not in table:
            context.failed(f"kinds {kind}", f"{path} declares it, and docs/errors.md does not explain it")
    for kind, (command, blocks, other) in table.items():
        why = complaint(context, kind, command, blocks, other)
        if kind not in known and kind not in OTHERS:
            why = "nothing declares it"
        if why:
            context.failed(f"kinds {kind}", why)
        else:
            context.passed()
