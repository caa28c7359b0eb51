"""An axis of size 1 has no effect: every program of the tests is equivalent on a mesh with one more axis, of size 1.

Each module with a mesh is rewritten with an axis `one` of size 1 in each of its meshes, along which dims are sharded, sums are
pending and collectives run. For both, `dtc opt` with the passes of the test's own RUN lines (or with the standard ones, where
there are none) must print the same text, except for the line of the mesh. Programs that a RUN line runs with --check are run
the same way.

The positions are derived from the file's name: DTC_UNITAXES_SEED=N changes them."""

import os
import random
import re
import shlex
from concurrent.futures import ThreadPoolExecutor

SEED = os.environ.get("DTC_UNITAXES_SEED", "1")
STANDARD = [["opt", "-p", "propagate,partition,optimize-collectives"]]
SKIPPED = ("--types", "--sharding-style", "--timing", "--verify-diagnostics")  # whose output contains all axes, or times
RUN_EVERY = 10  # of the programs run with --check by a test


def inserted(draw, items, item):
    at = draw.randrange(len(items) + 1)
    return items[:at] + [item] + items[at:]


def split(text):
    """Splits at commas outside of brackets."""
    parts, depth, last = [], 0, ""
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(last.strip())
            last = ""
        else:
            last += c
    return parts + [last.strip()] if last.strip() or parts else []


def sharded(draw, dim):
    """One entry of a sharding, sharded along `one` as well."""
    found = re.fullmatch(r"(\(.*\)|[\w:()]*?)?(\??)( p\d+)?", dim)
    axes, opened, priority = found[1] or "", found[2], found[3] or ""
    if axes in ("", "_"):
        return "one" + opened + priority
    inner = split(axes[1:-1]) if axes.startswith("(") else [axes]
    return "(" + ", ".join(inserted(draw, inner, "one")) + ")" + opened + priority


def dim_style(draw, body):
    dims, bar, clauses = body.partition("|")
    dims, clauses = split(dims), split(clauses)
    spots = [("dim", i) for i in range(len(dims))] + [("clause", i) for i in range(len(clauses))] + [("rep", 0), ("none", 0)]
    kind, at = draw.choice(spots)
    if kind == "dim":
        dims[at] = sharded(draw, dims[at])
    elif kind == "clause":
        word, inner = clauses[at].split("(", 1)
        clauses[at] = word + "(" + ", ".join(inserted(draw, split(inner[:-1]), "one")) + ")"
    elif kind == "rep":
        clauses.append("rep(one)")
    return "{" + ", ".join(dims) + (" | " + ", ".join(clauses) if clauses else "") + "}"


def with_unit_axes(text, draw):
    text = re.sub(r"^\s*//.*\n|(?<=\S) +//.*$", "", text, flags=re.M)
    at = {}  # by mesh: the position of `one`

    def mesh(found):
        axes = split(found[2])
        at[found[1]] = draw.randrange(len(axes) + 1)
        return f"mesh @{found[1]} = [" + ", ".join(axes[: at[found[1]]] + ["one=1"] + axes[at[found[1]] :]) + "]"

    def sharding(found):
        before, name, body = found[1], found[2] or "", found[3]
        if not name and re.match(r"\s*\w+ *=", body):
            return found[0]
        return before + name + dim_style(draw, body)

    def placements(found):
        places = split(found[2])
        spot = at[found[1][1:]] if found[1] else next(iter(at.values()))
        cut = [p for p in places if re.fullmatch(r"S\(\d+\)", p)]
        return found[1] + "[" + ", ".join(places[:spot] + [draw.choice(cut + ["R"])] + places[spot:]) + "]"

    text = re.sub(r"mesh @(\w+) = \[([^\]]*)\]", mesh, text)
    text = re.sub(r"((?:\] ?)|(?=@))(@\w+)?\{([^{}\n%\"]*)\}", sharding, text)
    text = re.sub(r"(@\w+|(?<=\] ))\[((?:R|[SP]\()[^\[\]]*)\]", placements, text)
    text = re.sub(r"\baxes = \[([^\[\]]*)\]",
                  lambda found: "axes = [" + ", ".join(inserted(draw, split(found[1]), "one")) + "]", text)
    return re.sub(r"(?<=[\w)])/(\w+(?::\(\d+\)\d+)?)(?=[\],])", r"/(one, \1)", text)


def commands(text):
    """(verb and flags) of the RUN lines whose only input is the file, without FileCheck and shell syntax."""
    opts, runs = [], []
    text = re.sub(r"\\\n// RUN: *", "", text)
    for line in re.findall(r"^// RUN: (.*)$", text, re.M):
        words = re.split(r"\||2>&1|>", line)[0]
        if "not " in words or "%t" in words or "env " in words or "&&" in words:
            continue
        found = re.match(r"%dtc-opt %s(.*)|%dtc opt %s(.*)|%dtc run %s(.*--check.*)", words)
        if not found:
            continue
        flags = shlex.split(found[1] or found[2] or found[3] or "")
        if any("%" in f or f.split("=")[0] in SKIPPED for f in flags):
            continue
        (runs if found[3] else opts).append([("run" if found[3] else "opt"), *flags])
    unique = [list(c) for c in dict.fromkeys(tuple(c) for c in opts)]
    return unique or STANDARD, runs


def without_meshes(text):
    return re.sub(r"^mesh @.*\n", "", text, flags=re.M)


def complaint(context, path, draw):
    whole = (context.root / path).read_text(errors="replace")
    opts, runs = commands(whole)
    parts = [p for p in re.split(r"^// -----.*$", whole, flags=re.M) if re.search(r"^mesh @", p, re.M) and "one=" not in p]
    for part in parts:
        made = with_unit_axes(part, draw)
        for command in opts:
            plain, other = (context.run(context.dtc, *command, "-", text=t) for t in (part, made))
            if plain.returncode != other.returncode:
                return f"dtc {shlex.join(command)}: exit code {other.returncode}, without the axis {plain.returncode}\n{made}\n{other.stderr[-1500:]}"
            if without_meshes(plain.stdout) != without_meshes(other.stdout):
                pairs = zip(without_meshes(plain.stdout).splitlines(), without_meshes(other.stdout).splitlines())
                first = next(((a, b) for a, b in pairs if a != b), ("", "(more or fewer lines)"))
                return f"dtc {shlex.join(command)}:\n{made}\n      without the axis: {first[0]}\n      with it:          {first[1]}"
        for command in runs[:1] if len(parts) == 1 and draw.randrange(RUN_EVERY) == 0 else ():
            done = context.run(context.dtc, *command, "-", text=made, limit=150)
            if done.returncode:
                return f"dtc {shlex.join(command)}: exit code {done.returncode}\n{made}\n{(done.stdout + done.stderr)[-1500:]}"
    return None if parts else ""


def check(context):
    paths = [p for p in context.files("test/*.dt", "examples/*.dt") if "/Inputs/" not in p and not p.startswith("test/fuzz/")]
    with ThreadPoolExecutor(2) as pool:
        for path, why in zip(paths, pool.map(lambda p: complaint(context, p, random.Random(p + SEED)), paths)):
            if why:
                context.failed(f"unitaxes {path}", why)
            elif why is None:
                context.passed()
