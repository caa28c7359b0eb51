"""The text is the program: what `dtc compile --emit schedule` prints, run by `dtc run`, gives the same bits with the same steps in the same arena.
So has what `--emit ir` prints, compiled again, the same arena. The text after every pass is valid, and `dtc opt -p` with the pipeline that `dtc opt --pipeline` prints gives the same text.

Programs are those that a test runs with --check, on a CPU and on cuda-emu, with the flags of that test; and the examples."""

import json
import pathlib
import re
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

from checks import unitaxes

# Flags of lowering; the others are flags of running.
LOWERING = ("--dim", "--mesh", "--policy", "--reduce-dtype", "--reduction-order", "--strict-nonfinite", "--entry", "--no-overlap", "--recompute", "--rings")
WITHOUT_VALUE = ("--strict-nonfinite", "--no-overlap")
FOR_BOTH = {"--dim", "--mesh", "--policy", "--no-overlap"}  # of lowering, which local text needs no more, or takes, too
NOT_HERE = ("--check", "--stats", "--json", "--print", "--output", "--trace", "--nan", "--loop", "--log-ops", "--comm")
RUN_EVERY = 2
# Programs whose text is not valid after a pass, with the reason.
INVALID_BETWEEN = {"test/Passes/partition/window-gradient.dt": "autodiff uses values of two meshes in one op; propagate separates them"}


def parted(flags):
    """(flags of lowering, of running), or nothing where a flag needs more than a run."""
    lowering, running, flags = [], [], list(flags)
    while flags:
        flag = flags.pop(0)
        name = flag.split("=")[0]
        if name == "--check":
            continue
        if name in NOT_HERE:
            return None
        into = lowering if name in LOWERING or name.startswith("-O") else running
        into.append(flag)
        if name.startswith("-O"):  # kernels are compiled with it, too
            running.append(flag + (flags[0] if name == "-O" else ""))
        if name == "-O" or (name.startswith("--") and "=" not in flag and name not in WITHOUT_VALUE and flags and not flags[0].startswith("-")):
            into.append(flags.pop(0))
    return lowering, running


def backend_of(running):
    for i, flag in enumerate(running):
        if flag.startswith("--backend"):
            return flag.split("=")[1] if "=" in flag else running[i + 1]
    return "cpu"


def result(context, folder, name, command, text):
    out = pathlib.Path(folder) / f"{name}.npz"
    done = context.run(context.dtc, "run", "-", *command, "--stats", "--json", "--output", out, text=text, limit=150)
    if done.returncode:
        return None, f"exit code {done.returncode}: {done.stderr[-1200:]}"
    stats = json.loads(done.stdout)["stats"]
    steps = [(s["name"], s["kind"], s["calls"]) for s in stats["steps"]]
    return {"results": out.read_bytes(), "steps": steps, "arena": stats["arena_bytes"]}, ""


def functions(text):
    return set(text.strip().split("\n\n"))


def wrong_by_opt(context, lowering, target, text, compiled, verify):
    """Why `dtc opt` with the standard pipeline (and --verify-each) fails, or differs from `dtc compile`, or nothing."""
    pipeline = context.run(context.dtc, "opt", "-", "--pipeline", "--target", target, *lowering, text=text).stdout.strip()
    program, flags = [], list(lowering)
    while flags:
        flag = flags.pop(0)
        if flag.split("=")[0] in ("--dim", "--mesh", "--entry"):
            program += [flag] if "=" in flag else [flag, flags.pop(0)]
    done = context.run(context.dtc, "opt", "-", "-p", pipeline, *(["--verify-each"] if verify else []), *program, text=text)
    if done.returncode:
        return f"dtc opt{' --verify-each' if verify else ''}: {done.stderr[-1200:]}"
    # `dtc compile` prints the functions of one entry.
    missing = functions(compiled) - functions(done.stdout)
    return f"dtc opt -p '{pipeline}' prints another text than dtc compile:\n{min(missing)[:1200]}" if missing else ""


class InFolder:
    """The context, where commands run in the folder of a file: its imports are there."""

    def __init__(self, context, path):
        self.context, self.folder, self.dtc, self.root = context, (context.root / path).parent, context.dtc, context.root

    def run(self, *command, **options):
        return self.context.run(*command, cwd=self.folder, **options)


def arenas(text):
    return re.findall(r"\barena = \d+", text)


def wrong_from_local(context, lowering, target, text, compiled):
    """Why the per-device program that `dtc compile --emit ir` prints needs other memory than the program that it is of, or nothing."""
    local = context.run(context.dtc, "compile", "-", "--emit", "ir", "--target", target, *lowering, text=text)
    flags = [f for f in lowering if f.startswith("-O") or f in ("--no-overlap",)]
    again = context.run(context.dtc, "compile", "-", "--emit", "schedule", "--target", target, *flags, text=local.stdout)
    if local.returncode or again.returncode:
        return f"its local text: {(local.stderr + again.stderr)[-1200:]}"
    if arenas(again.stdout) != arenas(compiled):
        return f"{arenas(compiled)[:4]}, but from its local text {arenas(again.stdout)[:4]}"
    return ""


def complaint(context, path, flags):
    context = InFolder(context, path)
    found = parted(flags)
    if not found:
        return ""
    lowering, running = found
    backend = backend_of(running)
    if backend not in ("cpu", "cuda-emu"):
        return ""
    text = (context.root / path).read_text(errors="replace")
    target = "cpu" if backend == "cpu" else "sm_90a"
    compile_to = [context.dtc, "compile", "-", "--emit", "schedule", "--target", target]
    compiled = context.run(*compile_to, *lowering, text=text)
    if several := re.search(r"several uncalled functions: (.*); choose one", compiled.stderr):
        names = several[1].split(", ")
        lowering += ["--entry", names[zlib.crc32(path.encode()) % len(names)]]
        compiled = context.run(*compile_to, *lowering, text=text)
    if "unbound symbolic sizes" in compiled.stderr:
        return ""  # the run takes them from its inputs
    if compiled.returncode:
        return f"dtc compile: exit code {compiled.returncode}\n{compiled.stderr[-1200:]}"
    if why := wrong_by_opt(context, lowering, target, text, compiled.stdout, path not in INVALID_BETWEEN):
        return why
    if set(f.split("=")[0] for f in lowering if f.startswith("--")) <= FOR_BOTH and (why := wrong_from_local(context, lowering, target, text, compiled.stdout)):
        return why
    with tempfile.TemporaryDirectory() as folder:
        plain, why = result(context, folder, "plain", [*lowering, *running], text)
        if not plain:
            return ""  # the test with this line reports the failure
        entered, why = result(context, folder, "entered", running, compiled.stdout)
        if not entered:
            return f"its schedule, run: {why}"
    for what in plain:
        if plain[what] != entered[what]:
            shown = "" if what == "results" else f": {str(plain[what])[:300]}\n      and from its schedule: {str(entered[what])[:300]}"
            return f"{what} differ{shown}"
    return None


def check(context):
    tasks = []
    for path in context.files("test/*.dt", "examples/*.dt"):
        text = (context.root / path).read_text(errors="replace")
        if "/Inputs/" in path or path.startswith("test/fuzz/") or re.search(r"^// -----", text, re.M):
            continue
        runs = unitaxes.commands(text)[1] if path.startswith("test/") else [["run", "--input", "*=randn(1)"]]
        for run in runs:
            if path.startswith("examples/") or zlib.crc32((path + str(run)).encode()) % RUN_EVERY == 0:
                tasks.append((path, run[1:]))
    with ThreadPoolExecutor(2) as pool:
        for (path, flags), why in zip(tasks, pool.map(lambda t: complaint(context, *t), tasks)):
            if why:
                context.failed(f"levels {path} {' '.join(flags)}", why)
            elif why is None:
                context.passed()
