"""README.md and docs/ are correct: every block of IR parses, every `dtc` command of a `sh` block runs, and quoted
diagnostics match the output of dtc.

A fenced block is IR if it is labelled `dt`; `dt error` must be rejected. A block without a label may not look like
IR, so that none is missed; `dt part` contains statements without their function: they are not parsed, and their number is
limited.

A `text` block that begins like a diagnostic, `NAME.dt:1:2: error:`, follows the `dt error` block that causes it, and must
equal the complete output.

In blocks labelled `sh`, each line that begins with `dtc ` (or `$ dtc `, or pipes into dtc) must end with code 0, in a folder
that contains the tree's examples, and each complete block that the paragraph before it names `NAME.dt`. Skipped are
`sh part` (which needs a manual step first), lines with an ellipsis, and commands that need a GPU or NVRTC where there is none."""

import os
import re
import shutil

from . import generated

MOST_PARTS = 0.5  # of all blocks
COLUMNS = 110
# Words that this project used for the field's terms, and the terms.
TERMS = {
    r"greatest": "maximum, largest",
    r"(?<!round[- ])trips?": "iteration",
    r"pieces?": "shard",
    r"wires?": "communication dtype",
    r"kept apart": "materialized",
    r"looked up by number": "gather, index",
    r"by rows|by columns": "row-major, column-major",
    r"matrix products?": "matmul",
    r"comes? together": "synchronize",
}


def headings(text):
    """The anchors of a page, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```\s*$", "", text, flags=re.M | re.S)
    for title in re.findall(r"^#+ +(.*)$", plain, re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.strip()).lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def link_complaints(root, path, text):
    """(line, why) of each broken link."""
    prose = re.sub(r"^```.*?^```\s*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    for found in re.finditer(r"\]\(([^)\s]+)\)", prose):
        target, _, anchor = found[1].partition("#")
        line = prose.count("\n", 0, found.start()) + 1
        if re.match(r"\w+:", target):
            continue
        file = (root / path).parent / target if target else root / path
        if not file.exists():
            yield line, f"links to {target}, which does not exist"
        elif anchor and anchor not in set(headings(file.read_text())):
            yield line, f"links to #{anchor}, which is no heading of {target or path}"


def style_complaints(path, text):
    """(line, why) of what a hand-written page should change."""
    lines = text.splitlines()
    if not next((line for line in lines[1:] if line.strip()), "").startswith("For "):
        yield 1, "does not say in its first line whom it is for (`For users who ...`)"
    label = None  # of the fenced block
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            label = line[3:].strip() if label is None else None
            continue
        if len(line) > COLUMNS and label not in ("text", "sh", "sh part"):
            yield number, f"has {len(line)} columns; at most {COLUMNS}"
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line) if label is None else ""
        for word, term in TERMS.items():
            if found := re.search(rf"\b({word})\b", prose, re.I):
                yield number, f"says '{found[0]}'; the term is: {term}"


def decision_complaints(text):
    """(line, why) of headings of docs/decisions.md that are not `## N. Title (YYYY-MM-DD)` with N counting up from 1."""
    expected = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("## "):
            continue
        found = re.fullmatch(r"## (\d+)\. .+ \(\d{4}-\d{2}-\d{2}\)", line)
        if not found or int(found[1]) != expected:
            yield number, f"expected `## {expected}. Title (YYYY-MM-DD)`"
        expected += 1


def page_complaints(root, path, text):
    yield from link_complaints(root, path, text)
    if path not in generated.PAGES:
        yield from style_complaints(path, text)
    if path == "docs/decisions.md":
        yield from decision_complaints(text)


def blocks(text):
    """(line, label, body, file) of each fenced block; file: its name in the line before (`first.dt`:), or ""."""
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
    """A folder outside of the tree with the examples, in which a reader's commands run."""
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
    for path in context.files("README.md", "docs/*.md", "packaging/*.md"):
        program, page = None, (context.root / path).read_text()
        complaints = list(page_complaints(context.root, path, page))
        for line, why in complaints:
            context.failed(f"docs {path}:{line}", why)
        if not complaints:
            context.passed()
        for line, label, body, name in blocks(page):
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
        context.failed("docs", f"{partial} of {whole + partial} blocks of IR are `dt part`, which are not checked")
