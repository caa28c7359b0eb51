"""Runs of several processes (--comm mpi), started by mpirun on this machine.

- The communicators conform in 2, 3, 4 and 8 processes, with and without a fixed order.
- Random programs have the bits of one process (mpi_random.py).
- Models have the bits of one process with --reduction-order fixed, and pass --check without it, in 2, 4 and 8 processes.
- Training runs and results have the files of one process (mpi_files.py), and so do recipes: a few, or all of
  docs/parallelism.md in 2, 4 and 8 processes with DTC_MPI_RECIPES=1.
- The C API works over several processes, and an error of one is an error of all (mpi_api.py).
- Processes that differ, cannot start, or fail (mpi_faults.py): one message, one exit code, no process is left."""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import mpi_api, mpi_files

SAMPLE = "--seq 16 --batch 8 --mode train --optimizer sgd"
MODELS = {
    "gpt": f"gpt {SAMPLE} --layers 1 --parallel dp=2,tp=4,sp",
    "experts": f"mixtral {SAMPLE} --layers 1 --parallel dp=2,ep=4",
    "pipeline": f"llama {SAMPLE} --layers 4 --microbatches 2 --parallel pp=4,dp=2",
    "context": f"llama {SAMPLE} --layers 1 --parallel cp=4,tp=2 --context ring",
}
INPUTS = ["--input", "*=randn(1,0.1)"]
HOST_OP = """mesh @m = [a=4]
func @main(%x: f32[8] @m{a}) -> (%s: f32[]) {
  %s = sum %x
  print %s
  print %x
  expect_close %s, 1.0
  return %s
}
"""


def processes_left(folder, seconds=3):
    """The processes of runs below the folder. `mpirun` does not wait for those that it has killed, so that they may need a
    moment to end."""
    until = time.time() + seconds
    while True:
        left = subprocess.run(["pgrep", "-f", f"dtc run {folder}"], capture_output=True, text=True).stdout.split()
        if not left or time.time() > until:
            return left
        time.sleep(0.05)


class Runs:
    def __init__(self, context, folder):
        self.context, self.folder = context, folder
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        yields = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                  "OMPI_MCA_hwloc_base_binding_policy": "none"}
        self.env = [f"{k}={v}" for k, v in {**root, **yields}.items()]

    def mpirun(self, *command, limit=120):
        """The exit code and all text but mpirun's own."""
        done = self.context.run("env", *self.env, "mpirun", *command, cwd=self.folder, limit=limit)
        return done.returncode, done.stdout, done.stderr

    def dtc(self, processes, *arguments, mpi=(), limit=120):
        return self.mpirun("-n", processes, *mpi, self.context.dtc, "run", *arguments, "--comm", "mpi", limit=limit)

    def expect(self, name, holds, why):
        if holds:
            self.context.passed()
        else:
            self.context.failed(f"mpi {name}", why)


def unit(runs, name, processes, tests, count):
    """Unit tests, in each process; mpirun returns the worst of their codes."""
    binary = runs.context.build / "bin" / "dtc-unit"
    code, out, err = runs.mpirun("-n", processes, "-x", "GTEST_COLOR=no", binary,
                                 f"--gtest_filter={tests}", limit=300)
    good = code == 0 and f"[  PASSED  ] {count} test" in out and "SKIPPED" not in out and "FAILED" not in out
    runs.expect(name, good, f"code {code}\n{out[-3000:]}{err[-1000:]}")


def model(runs, name, flags):
    text, fixed = runs.folder / f"{name}.dt", runs.folder / f"{name}.npz"
    runs.context.run(runs.context.dtc, "model", *flags.split(), "-o", text)
    alone = runs.context.run(runs.context.dtc, "run", text, *INPUTS, "--reduction-order", "fixed", "--output", fixed)
    runs.expect(f"{name} alone", alone.returncode == 0 and "NaN" not in alone.stderr, alone.stderr[-2000:])
    for processes in (2, 4, 8):
        own = runs.folder / f"{name}-{processes}.npz"
        code, out, err = runs.dtc(processes, text, *INPUTS, "--reduction-order", "fixed", "--output", own)
        same = code == 0 and own.exists() and own.read_bytes() == fixed.read_bytes()
        runs.expect(f"{name} {processes}", same, f"code {code}, or other bits than in one process\n{err[-2000:]}")
    code, out, err = runs.dtc(4, text, *INPUTS, "--check")
    runs.expect(f"{name} --check", code == 0 and ": ok" in out and "FAIL" not in out, out[-2000:] + err[-2000:])


def clocks(runs):
    """A process whose clock is ahead: in the trace, a collective does not end on one device before it began on another."""
    folder, library = runs.folder, runs.context.build / "stub" / "libdtc-mpi-faults.so.1"
    (folder / "clocks.dt").write_text(HOST_OP)
    for ahead in (0, 1_000_000_000):  # ns; far more than a message takes on a busy machine
        code, out, err = runs.dtc(2, "clocks.dt", "--input", "*=const(0.125)", "--trace", "clocks.json",
                                  mpi=["-x", f"LD_PRELOAD={library}", "-x", f"DTC_STUB_CLOCK=1:{ahead}"])
        events = json.loads((folder / "clocks.json").read_text())["traceEvents"] if code == 0 else []
        spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("ph") == "X" and "all_reduce" in e["name"]]
        overlap = len(spans) == 4 and max(b for b, _ in spans) < min(e for _, e in spans) + 20_000  # us
        labels = {e["args"]["labels"].split()[1] for e in events if e.get("name") == "process_labels"}
        runs.expect(f"clock ahead by {ahead} ns", overlap and labels == {"0", "1"}, f"code {code}, {spans}, {labels}\n{err}")


def dumps(runs):
    """Dumps of a run in which a process is stopped, merged."""
    folder, library = runs.folder, runs.context.build / "stub" / "libdtc-mpi-faults.so.1"
    if not library.exists():
        return
    clocks(runs)
    code, out, err = runs.dtc(2, "host.dt", "--input", "*=const(0.125)", "--comm-timeout", 2, "--comm-dump", "dump.json",
                              mpi=["-x", f"LD_PRELOAD={library}", "-x", "DTC_STUB_MPI=1:1:19"])
    merged = runs.context.run(runs.context.dtc, "trace", "merge", folder / "dump-0.json")
    said = re.search(r"1 dump of 2 processes; no dump of rank 1\nhost.dt:3: 'all_reduce' of devices 0, 1, 2, 3 did not complete\n"
                     r"  rank 0 on \S+ arrived first\n  rank 1 has not arrived: it has no dump\n", merged.stdout)
    runs.expect("merged dumps", code == 3 and said, f"code {code}\n{err}{merged.stdout}{merged.stderr}")


NANS = """mesh @m = [a=4]
func @main(%w: f32[8] @m{a}) -> (%w: f32[8] @m{a} {carry = true}, %loss: f32[]) {
  %l = log %w
  %loss = mean %l
  %n = sub %w, 1.0
  return %n, %loss
}
"""


def nans(runs):
    """The op that makes the first NaN, its state and its step, as one process gives them."""
    (runs.folder / "nan.dt").write_text(NANS)
    values = b"".join(struct.pack("<f", v) for v in [99, 99, 99, 99, 99, 5.5, 99, 99])
    (runs.folder / "w.raw").write_bytes(values)  # of device 2
    for processes, folder, of in ((1, "nan-1", ""), (2, "nan-2", r" of rank 1 on \S+"), (4, "nan-4", r" of rank 2 on \S+")):
        flags = ["--input", "w=raw:w.raw", "--checkpoint", folder, "--checkpoint-every", 4]
        code, out, err = runs.dtc(processes, "nan.dt", *flags, "--loop", 20)
        made = r"'log' produces the first NaN: element \[1\] of %l on device a=2" + of + r" \[nan-made\]$"
        found = re.search(r"^nan.dt:3:8: error: " + made, err, re.M)
        told = [f"note: '{folder}/step-00000006' is the state before step 7", "--loop 7 --resume --nan",
                "error: step 7 has NaN in its loss, 'loss', or in its state"]
        runs.expect(f"NaN of {processes}", code == 1 and found and all(t in err for t in told) and err.count("error:") == 2,
                    f"code {code}\n{err}")
        kept = mpi_files.files_of(runs.folder / folder / "step-00000006").get("state.safetensors", b"")
        state = b"".join(struct.pack("<f", struct.unpack_from("<f", values, 4 * i)[0] - 6) for i in range(8))
        runs.expect(f"state before the NaN of {processes}", kept.endswith(state), f"{kept}")
        code, out, err = runs.dtc(processes, "nan.dt", *flags, "--loop", 7, "--resume", "--nan")
        found = re.search(r"note: resumed after step 6\n", err) and re.search(made, err, re.M)
        runs.expect(f"--nan of {processes}", code == 1 and found, f"code {code}\n{err}")
    code, out, err = runs.dtc(2, "nan.dt", "--input", "w=const(2)", "--nan", "--print", "loss")
    runs.expect("--nan without NaN", code == 0 and err.count("note: no NaN found") == 1, f"code {code}\n{err}")
    code, out, err = runs.dtc(2, "nan.dt", "--input", "w=raw:w.raw", "--loop", 20, "--log", "nan.jsonl")
    report = runs.dtc(2, "nan.dt", "--input", "w=raw:w.raw", "--loop", 7, "--nan", "--stats", "--json")
    runs.expect("--nan --json", report[0] == 1 and json.loads(report[1])["nan"]["made"]["op"] == "log", f"{report}")
    runs.expect("NaN without checkpoints", code == 1 and "'log' produces the first NaN" in err and " --loop 7 --nan" in err, f"code {code}\n{err}")


def other_files(runs):
    """Files of the same name and size, but other content, are noticed before the first step."""
    folder, big = runs.folder, 3 << 20
    header = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
    for name, last in (("one", 1), ("two", 2)):
        (folder / name / "samples.bin").write_bytes(bytes(8) + bytes([last]))
        (folder / name / "big.bin").write_bytes(bytes(big - 1) + bytes([last]))
        (folder / name / "y.npy").write_bytes(header + bytes([0, last]))
    step = ["--data", "x=samples.bin:window=1", "--loop", "2"]
    for file, flags in (("samples.bin", ["--input", "y=zeros", *step]),
                        ("big.bin", ["--input", "y=zeros", "--data", "x=big.bin:window=1", "--loop", "2"]),
                        ("big.bin", ["--input", "y=zeros", "--data", "x=same.bin:window=1", "--loop", "2", "--eval", "x=big.bin:window=1"]),
                        ("y.npy", ["--input", "y=y.npy", "--input", "x=zeros"])):
        for name in ("one", "two"):
            (folder / name / "same.bin").write_bytes(bytes(9))
        train = [runs.context.dtc, "run", folder / "data.dt", "--comm", "mpi", *flags]
        code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *train, ":", "-n", 1, "-wdir", folder / "two", *train)
        differs = rf"rank 0 on \S+ ({file}: \d+ bytes, SHA-256 )(\w+)\n +rank 1 on \S+ \1(?!\2)\w+\n"
        runs.expect(f"other {file} {flags}", code == 2 and re.search(differs, err), f"code {code}\n{err}")


def messages(runs):
    folder = runs.folder
    (folder / "host.dt").write_text(HOST_OP)
    code, out, err = runs.dtc(2, "host.dt", "--input", "*=const(0.125)")
    lines = ["%s = 1.0", f"%2 = [{', '.join(['0.125'] * 8)}]", "s = 1.0"]
    runs.expect("print once", code == 0 and out.splitlines() == lines, f"code {code}\n{out}{err}")
    code, out, err = runs.dtc(2, "host.dt", "--input", "*=const(0.25)", "--comm-dump", "close.json")
    runs.expect("expect_close", (folder / "close-0.json").exists() and (folder / "close-1.json").exists() and code == 1 and err.count("error:") == 1 and "element [] is 2" in err, f"code {code}\n{err}")
    (folder / "devices.dt").write_text("mesh @m = [a=4]\nspmd func @main(%x: f32[]) -> (%x: f32[]) {\n  %me = axis_index {axes = [a]} : i32[]\n"
                                       "  %f = convert %me {dtype = f32} : f32[]\n  expect_close %f, %x\n  return %x\n}\n")
    for processes, of in ((1, ""), (2, r" of rank 0 on \S+"), (4, r" of rank 1 on \S+")):
        code, out, err = runs.dtc(processes, "devices.dt", "--input", "*=zeros")
        runs.expect(f"device of {processes}", code == 1 and re.search(rf"element \[\] is 1 where 0 is expected \(device a=1{of}\)", err), f"code {code}\n{err}")
    code, out, err = runs.dtc(2, "host.dt", "--input", "*=const(0.125)", "--trace", "t.json", "--stats")
    events = json.loads((folder / "t.json").read_text())["traceEvents"] if code == 0 else []
    devices = {e["pid"] for e in events if e.get("ph") == "X" and "all_reduce" in e["name"]}
    runs.expect("trace and stats", len(devices) == 4 and "collectives: 2," in out, f"code {code}, {devices}\n{out}{err}")
    dumps(runs)
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(runs.context.dtc, alone)
    done = runs.context.run(alone / "dtc", "run", folder / "host.dt", "--comm", "mpi", "--input", "*=zeros")
    runs.expect("no plugin", done.returncode == 3 and "install MPI (libopenmpi-dev" in done.stderr, done.stderr)
    for variables, why in ((["SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0"], "srun has started 2 processes without an interface to MPI"),
                           (["WORLD_SIZE=2"], "torchrun does not start MPI"), (["PMI_SIZE=2"], "has one process: the plugin dtc-mpi.so is for another MPI")):
        done = runs.context.run("env", *variables, runs.context.dtc, "run", folder / "host.dt", "--comm", "mpi", "--input", "*=zeros")
        runs.expect(f"{variables}", done.returncode == 2 and why in done.stderr, done.stderr)
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "p.dt").write_text(HOST_OP.replace("1.0", "1.0" if name == "one" else "3.0"))
    run = [runs.context.dtc, "run", "p.dt", "--comm", "mpi", "--input", "*=const(0.125)"]
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    differs = r"rank 0 on \S+ p.dt:6:   expect_close %s, 1.0\n +rank 1 on \S+ p.dt:6:   expect_close %s, 3.0"
    runs.expect("other program", code == 2 and re.search(differs, err), f"code {code}\n{err}")
    (folder / "carry.dt").write_text("mesh @m = [d=2]\nfunc @main(%x: f32[4] @m{d}) -> (%x: f32[4] {carry = true}) {\n"
                                     "  %y = add %x, 1.0\n  return %y\n}\n")
    train = [runs.context.dtc, "run", folder / "carry.dt", "--comm", "mpi", "--input", "x=zeros", "--loop", "2"]
    code, out, err = runs.mpirun("-n", 1, *train, ":", "-n", 1, *train, "--checkpoint", folder / "c")
    differs = r"rank 0 on \S+ no further argument\n +rank 1 on \S+ argument: --checkpoint\n"  # which begins with a round
    runs.expect("a checkpoint of one process", code == 2 and re.search(differs, err), f"code {code}\n{err}")
    for flags in (["--checkpoint", "c"], ["--output", "x=x.npy"]):
        both = [*train, *flags]
        code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *both, ":", "-n", 1, "-wdir", folder / "two", *both)
        differs = rf"rank 0 on \S+ {flags[0]}: \S+ in \S+/one\n +rank 1 on \S+ {flags[0]}: \S+ in \S+/two\n"
        runs.expect(f"{flags} in two folders", code == 2 and re.search(differs, err), f"code {code}\n{err}")
    code, out, err = runs.mpirun("-n", 2, runs.context.dtc, "run", folder / "carry.dt", "--input", "x=zeros")
    runs.expect("each alone", code == 0 and err.count("warning: each of the 2 processes of mpirun runs the whole program alone") == 1, f"code {code}\n{err}")
    code, out, err = runs.dtc(2, "carry.dt", "--input", "x=zeros", "--loop", 50, "--log", "/dev/full", "--comm-dump", "log.json")
    runs.expect("a full log", (folder / "log-0.json").exists() and code == 3 and err.count("error:") == 1 and re.search(r"^error: rank 0 on \S+: cannot write '/dev/full'", err, re.M), f"code {code}\n{err}")
    (folder / "kept" / "step-00000004").mkdir(parents=True)
    for flags, why in ((["--checkpoint", "kept"], "has checkpoints, the newest of step 4"), (["--output", "x=none/x.npy"], "'none' is not a folder")):
        code, out, err = runs.dtc(2, "carry.dt", "--input", "x=zeros", "--loop", 2, *flags)  # process 0 has looked for all
        runs.expect(f"{flags}", code == 2 and err.count("error:") == 1 and why in err and "note: this is an error of" not in err, f"code {code}\n{err}")
    (folder / "data.dt").write_text("""mesh @m = [d=2]
func @main(%x: u8[2, 1] @m{d, _}, %y: u8[2] {donate = true}) -> (%l: f32[], %y: u8[2] {carry = true}) {
  %0 = reshape %x {shape = [2]}
  %1 = add %y, %0
  %2 = convert %0 {dtype = f32}
  %l = sum %2
  return %l, %1
}
""")
    other_files(runs)
    nans(runs)
    failing = [runs.context.dtc, "run", folder / "host.dt", "--comm", "mpi", "--input", "*=const(3)", "--diagnostics", "json"]
    code, out, err = runs.mpirun("-n", 2, *failing)
    runs.expect("one document", code == 1 and err.count('"kind": "run-time"') == 1, f"code {code}\n{err}")
    (folder / "two" / "p.dt").write_text(HOST_OP.replace("sum %x", "summ %x"))
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    own = re.search(r"^error: rank 1 on \S+: p.dt:3:8: unknown op 'summ'; did you mean 'sum'\? \[unknown-op\]\n  %s = summ %x\n", err)
    runs.expect("a program that one process cannot parse", code == 1 and own and err.count("error:") == 1, f"code {code}\n{err}")
    (folder / "two" / "p.dt").unlink()
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    runs.expect("missing program", code == 1 and re.search(r"rank 1 on \S+: cannot read p.dt", err), f"code {code}\n{err}")
    (folder / "two" / "p.dt").write_text(HOST_OP)
    (folder / "one" / "p.dt").unlink()
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    own = re.search(r"^error: cannot read p.dt: .*\nnote: this is an error of rank 0 on \S+; rank 1 on \S+ has none$", err, re.M)
    runs.expect("a program that rank 0 cannot read", code == 1 and own and err.count("error:") == 1, f"code {code}\n{err}")
    (folder / "two" / "p.dt").unlink()
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    runs.expect("a program that none can read", code == 1 and err.count("error:") == 1 and "note:" not in err, f"code {code}\n{err}")
    for processes, flags, why in (
            (3, [], "4 devices, which 3 processes cannot share equally"),
            (2, ["--devices-per-process", 1], "2 processes with --devices-per-process 1 have 2"),
            (2, ["--comm-dump", "none/dump.json"], "--comm-dump: 'none' is not a folder"),
            (2, ["--backend", "cuda-emu"], "--comm mpi needs --backend cpu")):
        code, out, err = runs.dtc(processes, "host.dt", "--input", "*=const(0.125)", *flags)
        runs.expect(f"{flags}", code == 2 and why in err, f"code {code}\n{err}")


def available(context):
    return shutil.which("mpirun") and (context.build / "bin" / "dtc-mpi.so").exists()


def check(context):
    from . import mpi_faults, mpi_hosts, mpi_random

    if not available(context):
        context.note("no runs of several processes: mpirun was not found, or the build has no plugin dtc-mpi.so")
        return
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool, \
            ThreadPoolExecutor(2) as waiting:
        runs = Runs(context, Path(made))
        tasks = [pool.submit(model, runs, name, flags) for name, flags in MODELS.items()]
        tasks += [pool.submit(unit, runs, f"conformance {n} {kind}", n, f"*Conformance*/mpi_{kind}", 6)
                  for n in (2, 3, 4, 8) for kind in ("any", "fixed")]
        tasks += [pool.submit(mpi_random.run, runs, 1, 20), pool.submit(messages, runs)]
        mpi_files.prepare(runs)
        tasks += [pool.submit(part, runs) for part in mpi_files.checks(runs)]
        tasks.append(pool.submit(mpi_api.check_programs, runs))
        tasks += [waiting.submit(mpi_faults.start, runs, victim) for victim in (0, 1)]
        if (context.build / "stub" / "libdtc-mpi-faults.so.1").exists():
            mpi_faults.write_models(context, runs.folder)
            tasks.append(waiting.submit(mpi_hosts.check, context, short=True))
            tasks += [waiting.submit(mpi_faults.run, runs, case) for case in mpi_faults.FEW] + [waiting.submit(mpi_faults.late, runs)]
        else:
            context.note("no faults of processes: the stub was not built (a sanitizer's build has none)")
        for task in tasks:
            task.result()
        left = processes_left(made)
        runs.expect("no process is left", not left, f"processes {left}")
