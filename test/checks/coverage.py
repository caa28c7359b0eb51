"""Every op, pass, kind of diagnostic and flag occurs in some test; exceptions are listed with a reason.

test/coverage-exceptions.txt lists them, one per line: `op NAME: reason`, `pass NAME: …`, `flag VERB --NAME: …`. An unneeded exception is an error, too."""

import re

EXCEPTIONS = "test/coverage-exceptions.txt"


def exceptions(context):
    found = {}
    path = context.root / EXCEPTIONS
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, reason = line.partition(": ")
        if not colon or len(reason.strip()) < 10:
            context.failed("coverage", f"{EXCEPTIONS}:{number}: an exception needs a reason: `{line}`")
        found[name.strip()] = number
    return found


def ops(context, tests):
    """Ops by the records (the generated docs/ops.md lists them all); each must be a statement of some test."""
    page = context.root / "docs/ops.md"
    names = set(re.findall(r"^#+ +`(\w+)`|^\| *`(\w+)` *\|", page.read_text(), re.M)) if page.exists() else set()
    used = set(re.findall(r"(?:^|[={}]|: )\s*([a-z]\w*) (?=[%@{(:\d])|^\s*([a-z]\w*)\b", tests, re.M))
    used = {name for pair in used for name in pair if name}
    for name in sorted({a or b for a, b in names}):
        yield f"op {name}", name in used


def passes(context, runs):
    listed = context.run(context.dtc, "opt", "--list-passes")
    for name in re.findall(r"^\s*([a-z][a-z0-9-]*)\b", listed.stdout, re.M) if listed.returncode == 0 else []:
        yield f"pass {name}", bool(re.search(rf"(-p|--passes)[= ]\S*\b{re.escape(name)}\b", runs))


def parts_of(text):
    """The literal parts of a diagnostic's format, or of a test's expectation."""
    return [p.strip() for p in re.split(r"\{\d+\}|\{\{.*?\}\}|\[\[.*?\]\]", text) if len(p.strip()) >= 8]


def diagnostics(context, tests, unit):
    """Covered by an expectation in a test, or by its page: the example, which the check `kinds` runs, or the reason why there is none."""
    page = (context.root / "docs/errors.md").read_text()
    shown = {re.match(r"`([^`]+)`", part)[1] for part in re.split(r"^## ", page, flags=re.M)[1:] if "```text" in part or "No example:" in part}
    expected = re.findall(r"(?:expected-\w+\S*\s*\{\{|CHECK[\w-]*:\s*)(.*)$", tests, re.M)
    expected = [p for line in expected for p in parts_of(line.replace("}}", " ").strip())]
    everything = "\n".join(expected)
    for path in context.files("lib/*.cpp", "lib/*.h", "include/*.h", "tools/*.cpp", "tools/*.h"):
        text = re.sub(r"^\s*//.*$", "", (context.root / path).read_text(errors="replace"), flags=re.M)
        kinds = re.findall(r'DiagKind\s+(\w+)\s*(?:=\s*)?\{\s*"([^"]+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}', text)
        for name, identity, literal in kinds:
            form = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace('\\"', '"')
            own = parts_of(form) or [form]
            seen = (identity in shown or any(p in everything for p in own) or any(e in form for e in expected if len(e) >= 12)
                    or re.search(rf"\b{name}\b", unit) or f'"{identity}"' in tests)
            yield f"diagnostic {identity}", bool(seen)


def flags(context, runs):
    top = context.run(context.dtc, "--help").stdout
    for verb in sorted(set(re.findall(r"^\s+(?:dtc )?([a-z]{3,})\b", top, re.M))):
        shown = context.run(context.dtc, verb, "--help-all")
        if shown.returncode:
            continue
        used = "\n".join(line for line in runs.splitlines() if re.search(rf"%dtc(-opt\b| {verb}\b)", line))
        for flag in sorted(set(re.findall(r"^ +(?:-\w,)?(--[a-z][a-z-]+)", shown.stdout, flags=re.M)) - {"--help", "--help-all", "--diagnostics"}):
            yield f"flag {verb} {flag}", bool(re.search(rf"(?<![\w-]){flag}\b(?!-)", used))


def check(context):
    texts = {p: (context.root / p).read_text(errors="replace") for p in context.files("test/*.dt", "test/*.mlir", "test/*.test")}
    tests = "\n".join(texts.values())
    runs = "\n".join(re.findall(r"RUN:(.*)$", re.sub(r"\\\n\s*//\s*(RUN:)?", " ", tests), re.M))
    unit = "\n".join((context.root / p).read_text(errors="replace") for p in context.files("test/unit/*.cpp"))
    tests_and_examples = tests + "\n".join((context.root / p).read_text() for p in context.files("examples/*.dt"))
    excused = exceptions(context)
    seen = set()
    for find in (ops(context, tests_and_examples), passes(context, runs), diagnostics(context, tests, unit),
                 flags(context, runs)):
        for name, covered in find:
            if name in seen:
                continue
            seen.add(name)
            if covered and name in excused:
                context.failed(f"coverage {name}", f"is in tests now; drop line {excused[name]} of {EXCEPTIONS}")
            elif covered or name in excused:
                context.passed()
            else:
                context.failed(f"coverage {name}", "occurs in no test")
    for name, line in excused.items():
        if name not in seen:
            context.failed(f"coverage {name}", f"does not exist; drop line {line} of {EXCEPTIONS}")
