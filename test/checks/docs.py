"""What README.md and docs/ show is true: every block of IR parses, every `dtc` command of a `sh` block runs, and
quoted diagnostics are what dtc prints.

A fenced block is IR if it is labelled `dt`; `dt error` must be rejected. A block without a label may not look like IR, so
that none escapes; `dt part` holds statements without their function: they are not parsed, and there may be few.

A `text` block that begins as a diagnostic does, `NAME.dt:1:2: error:`, follows the `dt error` block that it is printed for, and is
all of it, line by line.

In blocks labelled `sh`, each line that begins with `dtc ` (or `$ dtc `, or pipes into dtc) must end with code 0, in a folder
that has the tree's examples, and each whole block that the paragraph before it calls `NAME.dt`. Passed over are `sh part`
(the reader was asked to do something first), lines with an ellipsis, and what needs a GPU or NVRTC where there is none."""

import os
import re
import shutil

MOST_PARTS = 0.5  # of all blocks


def blocks(text):
    """(line, label, body, file) of each fenced block; file: what the line before calls it (`first.dt`:), or ""."""
    for found in re.finditer(r"^```([^\n`]*)\n(.*?)^```\s*$", text, re.M | re.S):
        named = re.search(r"`([\w-]+\.dt)`:\s*$", text[: found.start()])
        yield text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2], named[1] if named else ""


def looks_like_ir(body):
    return bool(re.search(r"^\s*(spmd )?func @|^\s*mesh @|^\s*%\w+(, %\w+)* = \w+ ", body, re.M))


def ir_complaint(context, label, body):
    if label == "" and looks_like_ir(body):
        return "looks like IR and is not labelled `dt` (or `dt error`, `dt part`)"
    if label not in ("dt", "dt error"):
        return None
    done = context.run(context.dtc, "opt", "-", text=body)
    if label == "dt error":
        return None if done.returncode == 1 else f"should be an error; exit code {done.returncode}"
    return f"exit code {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else None


def quote_complaint(context, folder, body, program):
    """Of a quoted diagnostic; `program`: the `dt error` block before it, or None."""
    name = re.match(r"([\w-]+\.dt):\d+:\d+: ", body)[1]
    if program is None:
        return "quotes a diagnostic, but no `dt error` block is right before it"
    (folder / name).write_text(program)
    printed = context.run(context.dtc, "opt", name, cwd=folder).stderr
    return None if printed.strip() == body.strip() else f"dtc prints:\n{printed}"


def commands(context, body):
    for line in body.replace("\\\n", " ").splitlines():
        line = re.sub(r"^\s*\$ ", "", line).strip()
        if not re.search(r"(^|\| *)dtc ", line) or "…" in line or " ... " in line or "|ptx|" in line:
            continue
        if "--backend cuda" in line and "cuda-emu" not in line and not os.path.exists("/dev/nvidiactl"):
            continue
        if re.search(r"--emit (ptx|cubin)|--target sm_", line) and not context.has_nvrtc():
            continue
        if line.split()[0] not in ("dtc", "cat", "echo", "printf"):
            continue
        yield line


def scratch_folder(context):
    """A folder in which a reader's commands find the examples, and whatever they write does not lie in the tree."""
    folder = context.build / "test" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("examples", "docs", "test"):
        if (context.root / name).exists():
            (folder / name).symlink_to(context.root / name)
    return folder


def check(context):
    whole = partial = 0
    folder = scratch_folder(context)
    shell = f'set -o pipefail; PATH="{context.build / "bin"}:$PATH"; '
    for path in context.files("README.md", "docs/*.md"):
        program = None
        for line, label, body, name in blocks((context.root / path).read_text()):
            if label == "text" and re.match(r"[\w-]+\.dt:\d+:\d+: ", body):
                if why := quote_complaint(context, folder, body, program):
                    context.failed(f"docs {path}:{line}", why)
                else:
                    context.passed()
            program = body if label == "dt error" else None
            whole += label in ("dt", "dt error")
            partial += label == "dt part"
            if label == "dt" and name:
                (folder / name).write_text(body)
            why = ir_complaint(context, label, body)
            if why:
                context.failed(f"docs {path}:{line}", why)
            elif label in ("dt", "dt error"):
                context.passed()
            for command in commands(context, body) if label == "sh" else ():
                done = context.run("bash", "-c", shell + command, cwd=folder)
                if done.returncode:
                    context.failed(f"docs {path}:{line}: {command}", f"exit code {done.returncode}\n{done.stderr[-1500:]}")
                else:
                    context.passed()
    if partial > MOST_PARTS * (whole + partial):
        context.failed("docs", f"{partial} of {whole + partial} blocks of IR are `dt part`, which nothing checks")
