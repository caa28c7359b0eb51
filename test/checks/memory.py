"""Running out of memory anywhere gives exit code 3 with a message, and leaves no incomplete file.

Two ways: allocation n of a process fails, for n = 1, 2, 3, ... (test/stub/Memory.cpp), alone or with all later ones; and the
address space is limited (`ulimit -v`), from too little to enough. DTC_MEMORY_RUNS sets the number of runs of each."""

import os
import random
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

RUNS = int(os.environ.get("DTC_MEMORY_RUNS", "10"))
COUNTER = "DTC_FAIL_ALLOCATION"
LOADER = 127  # the process was not loaded: the message is ld.so's
PROGRAM = """mesh @m = [a=2]
func @main(%x: f32[64, 32] @m{a, _}, %w: f32[32, 48]) -> (%y: f32[64, 48] @m{a, _}) {
  %h = matmul %x, %w
  %y = gelu %h
  return %y
}
"""


def commands(dtc, folder):
    program = folder / "p.dt"
    program.write_text(PROGRAM)
    run = [dtc, "run", program, "--input", "*=randn(1)", "--output", "y.npz"]
    return [
        ("opt", [dtc, "opt", program, "-p", "propagate,partition"], False),
        ("run", run, False),
        ("run, nothing cached", run, True),
        ("run --check -O2", [*run, "--check", "-O2", "--stats"], False),
        ("run on cuda-emu", [*run, "--backend", "cuda-emu"], True),
        ("explain", [dtc, "explain", program], False),
        ("check --numerics", [dtc, "check", program, "--numerics"], False),
        ("export", [dtc, "export", program, "-o", "p.mlir"], False),
    ]


def outcome(command, folder, fresh, extra=None, limit=None):
    """(exit code, standard error, the files it left) of a run in an empty folder; a crash is a negative code."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    environment = {**os.environ, **(extra or {})}
    environment["XDG_CACHE_HOME"] = str(out / "cache" if fresh else folder / "cache")

    def bound():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    try:
        done = subprocess.run([str(c) for c in command], cwd=out, env=environment, capture_output=True,
                              preexec_fn=bound, timeout=120)
    except subprocess.TimeoutExpired:
        return 124, "stopped after 120 s", {}
    except OSError:  # exec itself ran out of memory
        return LOADER, "", {}
    shutil.rmtree(out / "cache", ignore_errors=True)
    files = {p.name: p.stat().st_size for p in out.iterdir()}
    return done.returncode, done.stderr.decode(errors="replace"), files


def complaint(code, stderr, files, complete, loads=False):
    """The failure of a run with limited memory, or ""; `complete`: the files of a run with enough."""
    # The loader allocates the thread-local data of a dlopened library at a thread's first access, and ends the process
    # if that fails, whatever the program does.
    if code == LOADER and "cannot allocate memory for thread-local data" in stderr:
        code = 3
    if code not in (0, 3) and not (loads and code in (LOADER, -9, -11)):
        return f"exit code {code}: {stderr.strip()[-300:]}"
    if code == 3 and "error: " not in stderr and "thread-local data" not in stderr:
        return f"exit code 3 without a message: {stderr.strip()[-300:]!r}"
    if code == 0 and files != complete:
        return f"exit code 0, but it left {files}, not {complete}"
    if any(files[name] != complete.get(name) for name in files):
        return f"exit code {code} left {files}, but {complete} is complete"
    return ""


def allocations(command, folder, fresh, stub):
    """The number of allocations of a run, to within a factor of two: the first power of two that does not make it fail."""
    n = 256
    while n < 1 << 30:
        code, _, _ = outcome(command, folder, fresh, {"LD_PRELOAD": stub, COUNTER: str(n), "DTC_FAIL_AFTER": "1"})
        if code == 0:
            return n
        n *= 2
    return n


def failing(context, name, command, folder, fresh, complete, stub, chance):
    most = allocations(command, folder, fresh, stub)
    numbers = {chance.randrange(1, 200) for _ in range(RUNS // 3)} | {chance.randrange(1, most) for _ in range(RUNS)}
    for n in sorted(numbers):
        for after in "01":
            # The first allocations belong to the loader and the C++ library, before main can report anything.
            extra = {"LD_PRELOAD": stub, COUNTER: str(n), "DTC_FAIL_AFTER": after}
            code, stderr, files = outcome(command, folder, fresh, extra)
            wrong = complaint(code, stderr, files, complete)
            if wrong:
                context.failed(f"memory: {name}, allocation {n}{' and all after it' if after == '1' else ''}", wrong)
            else:
                context.passed()


def bounded(context, name, command, folder, fresh, complete):
    low, high = 4 << 20, 4 << 30  # too little memory, enough memory
    while high - low > 1 << 20:
        middle = (low + high) // 2
        low, high = (low, middle) if outcome(command, folder, fresh, limit=middle)[0] == 0 else (middle, high)
    for limit in range(high // RUNS // 2, high + (1 << 20), max(high // RUNS, 1 << 20)):
        wrong = complaint(*outcome(command, folder, fresh, limit=limit), complete, loads=limit < 40 << 20)
        if wrong:
            context.failed(f"memory: {name}, {limit >> 10} KiB of address space", wrong)
        else:
            context.passed()


def check(context):
    stub = context.build / "stub/libdtc-memory.so.1"
    if not stub.exists():
        context.note("sanitizers replace the allocator: skipped")
        return context.passed()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, command, fresh in commands(context.dtc, folder):
            code, stderr, complete = outcome(command, folder, fresh)
            if code:
                context.failed(f"memory: {name}", f"exit code {code} with all memory: {stderr[-300:]}")
                continue
            failing(context, name, command, folder, fresh, complete, str(stub), chance)
            bounded(context, name, command, folder, fresh, complete)
