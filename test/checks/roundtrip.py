"""For every .dt of the tree, the printed form is canonical: print(parse(print(x))) == print(x).

A file that does not parse must be a test that expects this (an expected error, or `not` in its RUN lines)."""

import re
from concurrent.futures import ThreadPoolExecutor


def parts(text):
    """The modules of a file: tests may contain several, split at `// -----`."""
    return re.split(r"^// -----.*$", text, flags=re.M)


def wrong_on_purpose(text):
    return bool(re.search(r"expected-(error|warning)|RUN:.*\bnot\b|XFAIL", text))


def complaint(context, path):
    text = (context.root / path).read_text(errors="replace")
    folder = (context.root / path).parent  # of the files that it imports
    for number, part in enumerate(parts(text), 1):
        where = f"part {number}: " if number > 1 else ""
        once = context.run(context.dtc, "opt", "-", text=part, cwd=folder)
        if once.returncode:
            if once.returncode != 1:
                return f"{where}exit code {once.returncode}\n{once.stderr[-2000:]}"
            if wrong_on_purpose(text):
                continue
            return f"{where}does not parse, and is not marked as expected to fail\n{once.stderr[-2000:]}"
        twice = context.run(context.dtc, "opt", "-", text=once.stdout, cwd=folder)
        if twice.returncode:
            return f"{where}the printed text does not parse\n{twice.stderr[-2000:]}"
        if once.stdout != twice.stdout:
            pairs = zip(once.stdout.splitlines(), twice.stdout.splitlines())
            first = next(((a, b) for a, b in pairs if a != b), ("", "(more or fewer lines)"))
            return f"{where}printed once:  {first[0]}\n      printed twice: {first[1]}"
    return None


def check(context):
    paths = [p for p in context.files("*.dt") if "/Inputs/" not in p and not p.startswith("test/fuzz/")]
    with ThreadPoolExecutor(2) as pool:
        for path, why in zip(paths, pool.map(lambda p: complaint(context, p), paths)):
            if why:
                context.failed(f"roundtrip {path}", why)
            else:
                context.passed()
