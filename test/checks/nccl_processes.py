"""GPUs in several processes (--comm nccl under mpirun), with the stub libraries of CUDA and NCCL.

- Models, uneven shards and control flow have the results of one process; every process has one device or two.
- print, expect_close, --check, --trace, --comm-dump and errors are those of one process, or name the process.
- The C API works over several processes, by mpirun and by torchrun's variables, and an error of one is an error of all.
- torchrun's variables are enough (nccl_torchrun): without MPI, by hand and by torchrun itself.
- A process that is killed or stopped, a rank that stalls, an error of NCCL: code 3, with the process, collective and line."""

import json
import os
import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import mpi, mpi_api, nccl_torchrun

SAMPLE = "--seq 16 --batch 8 --mode train --optimizer sgd"
MODELS = {
    "mlp": ("mlp --batch 12 --mode train --optimizer sgd --parallel dp=3", (3,)),
    "gpt": (f"gpt {SAMPLE} --layers 1 --parallel dp=2,tp=2,sp", (2, 4)),
    "experts": (f"mixtral {SAMPLE} --layers 1 --parallel dp=2,ep=2", (2, 4)),
    "pipeline": (f"llama {SAMPLE} --layers 4 --microbatches 2 --parallel pp=2,dp=2", (2, 4)),
}
CUDA = ["--backend", "cuda", "--comm", "nccl"]
ROOT = Path(__file__).resolve().parent.parent
# Programs of lit, with devices that leave loops at different times, and uneven shards.
PROGRAMS = [("cuda-parting", [], (2, 4)), ("cuda-conditionals", ["--entry", "@nested"], (2,)), ("cuda-nccl", [], (2, 3, 6))]
TIMEOUT, GRACE = 2, 5  # seconds


class Runs(mpi.Runs):
    def __init__(self, context, folder):
        super().__init__(context, folder)
        self.env += [f"LD_LIBRARY_PATH={context.build / 'stub'}", "DTC_STUB_GPUS=8"]

    def alone(self, *arguments):
        return self.context.run("env", *self.env, self.context.dtc, "run", *arguments, *CUDA, cwd=self.folder, limit=120)

    def cuda(self, processes, *arguments, env=(), limit=60):
        return self.mpirun("-n", processes, "env", *env, self.context.dtc, "run", *arguments, *CUDA, limit=limit)

    def dtc(self, processes, *arguments):
        return self.cuda(processes, *arguments)


def model(runs, name):
    flags, counts = MODELS[name]
    text, one = runs.folder / f"{name}.dt", runs.folder / f"{name}.npz"
    runs.context.run(runs.context.dtc, "model", *flags.split(), "-o", text)
    done = runs.alone(text, *mpi.INPUTS, "--output", one)
    runs.expect(f"{name} alone", done.returncode == 0, done.stderr[-2000:])
    for processes in counts:
        own = runs.folder / f"{name}-{processes}.npz"
        code, _, err = runs.cuda(processes, text, *mpi.INPUTS, "--output", own)
        same = code == 0 and own.exists() and own.read_bytes() == one.read_bytes()
        runs.expect(f"{name} {processes}", same, f"code {code}, or other bits than in one process\n{err[-2000:]}")


def program(runs, name, flags, processes):
    text = ROOT / "Runtime" / f"{name}.dt"
    flags = [text, *flags, "--input", "*=randn(1)"]
    done = runs.alone(*flags)
    code, out, err = runs.cuda(processes, *flags)
    runs.expect(f"{name} {processes}", code == 0 and out and out == done.stdout, f"code {code}\n{done.stdout}\n{out}{err}")
    for more in ([], ["-O0"]):
        code, out, err = runs.cuda(processes, *flags, *more, "--nan")
        told = "note: no NaN found" in err or "note: no op produces the NaN" in err or "produces the first NaN" in err
        runs.expect(f"{name} {processes} {more} --nan", code in (0, 1) and told and out == done.stdout, f"code {code}\n{out}{err}")
    code, out, err = runs.cuda(processes, *flags, "--check")
    runs.expect(f"{name} {processes} --check", code == 0 and ": ok" in out and "FAIL" not in out, f"code {code}\n{out}{err}")


def messages(runs):
    folder = runs.folder
    (folder / "host.dt").write_text(mpi.HOST_OP)
    host = ["host.dt", "--input", "*=const(0.125)"]
    code, out, err = runs.cuda(2, *host, "--trace", "t.json", "--stats")
    lines = ["%s = 1.0", f"%2 = [{', '.join(['0.125'] * 8)}]"]
    events = json.loads((folder / "t.json").read_text())["traceEvents"] if code == 0 else []
    devices = {e["pid"] for e in events if e.get("ph") == "X" and "all_reduce" in e["name"]}
    said = out.splitlines()[:2] == lines and "note: 4 devices in 2 processes; in the first, 2 devices on 2 GPUs" in err
    runs.expect("print once", said and len(devices) == 4, f"code {code}, {devices}\n{out}{err}")
    code, out, err = runs.cuda(2, "host.dt", "--input", "*=const(0.25)", "--comm-dump", "host.json")
    runs.expect("expect_close", (folder / "host-0.json").exists() and (folder / "host-1.json").exists() and code == 1 and err.count("error:") == 1 and "element [] is 2" in err, f"code {code}\n{err}")
    code, out, err = runs.cuda(2, *host, env=["DTC_STUB_GPUS=3"])
    runs.expect("too few GPUs", code == 3 and re.search(r"the 4 devices on \S+ need 4 GPUs, and there are 3", err), f"code {code}\n{err}")
    run = [runs.context.dtc, "run", *host, *CUDA]
    seen = [["-n", 1, "env", f"CUDA_VISIBLE_DEVICES={g}", *run] for g in ("6,7", "2,5")]
    code, out, err = runs.mpirun(*seen[0], ":", *seen[1])
    runs.expect("GPUs by the launcher", code == 0 and "s = 1.0" in out, f"code {code}\n{out}{err}")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "p.dt").write_text(mpi.HOST_OP.replace("1.0", "1.0" if name == "one" else "3.0"))
    run = [runs.context.dtc, "run", "p.dt", "--input", "*=const(0.125)", *CUDA]
    code, out, err = runs.mpirun("-n", 1, "-wdir", folder / "one", *run, ":", "-n", 1, "-wdir", folder / "two", *run)
    differs = r"rank 0 on \S+ p.dt:6:   expect_close %s, 1.0\n +rank 1 on \S+ p.dt:6:   expect_close %s, 3.0"
    runs.expect("other program", code == 2 and re.search(differs, err), f"code {code}\n{err}")
    code, out, err = runs.cuda(2, *host, "--devices-per-process", 1)
    runs.expect("--devices-per-process", code == 2 and "2 processes with --devices-per-process 1 have 2" in err, f"code {code}\n{err}")


def programs(runs):
    """In C: GPUs, and torchrun's variables for them and for CPUs."""
    if not mpi_api.can_build(runs):
        return
    binary, expected = mpi_api.page_program(runs, "cuda")
    for backend in ("cpu", "cuda"):
        for count in (2, 4):
            codes, out, err = nccl_torchrun.processes(runs, count, [], command=[binary, backend])
            runs.expect(f"C program by variables in {count}, {backend}", codes == [0] * count and out == expected, f"{codes}\n{out}{err}")
    code, _, err = runs.mpirun("-n", 2, binary, "cuda-emu")
    runs.expect("C program, cuda-emu", code == 1 and "several processes need the backend cpu or cuda, not cuda-emu" in err, err)
    mpi_api.errors(runs, "cuda")


def failure(runs, name, env, expected, codes=(3,), processes=2):
    folder = Path(tempfile.mkdtemp(dir=runs.folder))
    (folder / "host.dt").write_text(mpi.HOST_OP)
    begun = time.time()
    code, _, err = runs.cuda(processes, folder / "host.dt", "--input", "*=const(0.125)", "--comm-timeout", TIMEOUT,
                             "--comm-dump", folder / "dump.json", env=env)
    at = re.search(r"fault at ([\d.]+)", err)
    seconds = time.time() - (float(at[1]) if at else begun)
    left = mpi.processes_left(folder)
    good = code in codes and re.search(expected, err) and len(re.findall(r"^\S*: error: |^error: ", err, re.M)) == 1
    runs.expect(name, good and not left and seconds < TIMEOUT + GRACE, f"code {code}, {seconds:.1f} s, left {left}\n{err[-3000:]}")
    return folder


def failures(runs):
    place = r"host.dt:3:\d+: (error: )?'all_reduce'"
    # mpirun may send SIGTERM before rank 0 has seen that rank 1 is dead.
    ended = r"(; the run was ended from outside: rank 0 on \S+ got SIGTERM)?"
    for fault in (signal.SIGKILL, signal.SIGSTOP):
        folder = failure(runs, f"{fault.name} of rank 1", [f"DTC_STUB_NCCL_FAULT=2:0:{int(fault)}"],
                         rf"{place}: .*no answer from rank 1 on \S+?{ended} \[run-time\]\n  rank 0 on \S+ waits for rank 1 at \S+{place}", (3, 137))
    merged = runs.context.run(runs.context.dtc, "trace", "merge", folder / "dump-0.json")
    said = re.search(r"1 dump of 2 processes; no dump of rank 1\nhost.dt:3: 'all_reduce' of devices 0, 1, 2, 3 did not complete", merged.stdout.replace(f"{folder}/", ""))
    runs.expect("dump", said, merged.stdout + merged.stderr)
    failure(runs, "a rank that stalls", ["DTC_STUB_NCCL_STALL=2:0"], rf"{place}: .*no progress for 2 s: all processes have come to the collective")
    failure(runs, "an error of NCCL", ["DTC_STUB_NCCL_STALL=2:0", "DTC_STUB_NCCL_FAIL=1"], r"rank \d on \S+: .*remote process exited")


def check(context):
    if not mpi.available(context) or not (context.build / "stub" / "libnccl.so.2").exists():
        context.note("no GPUs in several processes: there is no mpirun, no plugin dtc-mpi.so, or no stub of NCCL")
        return
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool, \
            ThreadPoolExecutor(1) as waiting:
        runs = Runs(context, Path(made))
        tasks = [pool.submit(model, runs, name) for name in MODELS] + [pool.submit(messages, runs), waiting.submit(failures, runs)]
        tasks += [pool.submit(nccl_torchrun.run, runs), pool.submit(programs, runs), pool.submit(mpi.nans, runs)]
        tasks += [pool.submit(program, runs, name, flags, processes) for name, flags, counts in PROGRAMS for processes in counts]
        for task in tasks:
            task.result()
