"""Faults of processes: in runs of several processes one is killed or stopped, or loses a message, at its n-th message.

Each run ends within --comm-timeout (and a few seconds) with code 3 (mpirun's own after SIGKILL), names the process, its
host, the collective and the line in the source, and leaves neither a process nor a file. `mpi-faults` runs all CASES,
`mpi` a sample of them."""

import re
import shutil
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import mpi

SAMPLE = "--seq 16 --mode train --optimizer sgd"
MODELS = {  # by program: for 2, 4 and 8 processes; for 3
    "gpt": (f"gpt {SAMPLE} --batch 8 --layers 1 --parallel dp=2,tp=4,sp", f"gpt {SAMPLE} --batch 6 --layers 1 --parallel dp=3"),
    "experts": (f"mixtral {SAMPLE} --batch 8 --layers 1 --parallel dp=2,ep=4", f"mixtral {SAMPLE} --batch 6 --layers 1 --parallel dp=3"),
    "pipeline": (f"llama {SAMPLE} --batch 8 --layers 4 --microbatches 4 --parallel pp=4,dp=2",
                 f"llama {SAMPLE} --batch 6 --layers 3 --microbatches 3 --parallel pp=3"),
}
LOST = 0  # a message
NAMES = {signal.SIGKILL: "SIGKILL", signal.SIGSTOP: "SIGSTOP", LOST: "a lost message"}
CASES = [(name, processes, (i + n) % processes, n, fault) for fault in NAMES for i, name in enumerate(MODELS)
         for processes in (2, 3, 4, 8) for n in (1, 2, 3)]
# Each kind of fault and number of processes at least once.
FEW = [("gpt", 4, 0, 1, signal.SIGKILL), ("pipeline", 8, 3, 2, signal.SIGKILL), ("gpt", 2, 1, 3, signal.SIGSTOP),
       ("experts", 4, 0, 2, signal.SIGSTOP), ("pipeline", 3, 1, 1, LOST), ("experts", 4, 2, 3, LOST)]
TIMEOUT, GRACE = 2, 4  # seconds


def write_models(context, folder, only=()):
    for name, flags in MODELS.items():
        for text, these in zip((f"{name}.dt", f"{name}-3.dt"), flags):
            if only and text not in only:
                continue
            context.run(context.dtc, "model", *these.split(), "-o", folder / text)
            # Compiles the kernels of all devices, so that runs with faults find them in the cache.
            context.run(context.dtc, "run", folder / text, *mpi.INPUTS, "--print", "loss")


def complaints(said, code, case, seconds):
    """What is wrong with the end of a run."""
    _, processes, victim, _, fault = case
    place = r"\S+\.dt:\d+:\d+: '\w+'"
    # mpirun's own code, where it has seen the death of a process, is 128 + SIGKILL.
    if code not in ((3, 137) if fault == signal.SIGKILL else (3,)):
        yield f"exit code {code}"
    if seconds > TIMEOUT + GRACE:
        yield f"it ended {seconds:.1f} s after the fault"
    if len(re.findall(r"^\S*: error: |^error: ", said, re.M)) != 1:
        yield "not one error"
    waits = re.search(rf"rank \d+ on \S+ waits for ranks? [0-9, ]*\b{victim}\b[0-9, ]* at {place}", said)
    if fault == LOST:
        own = re.search(rf"rank {victim} on \S+ waits for ranks? [0-9, ]+ at {place}", said)
        other = re.search(rf"from rank {victim} on \S+ at {place}", said)  # a message of another collective came instead
        if not own and not waits and not other:
            yield "the process that lost the message is not named"
        return
    if not re.search(rf"no answer from rank {victim} on \S+", said):
        yield "it does not say that the process gives no answer"
    if not waits:
        yield "the collective and its line are not named"


def run(runs, case):
    name, processes, victim, n, fault = case
    context = runs.context
    folder = Path(tempfile.mkdtemp(dir=runs.folder))
    text = shutil.copy(runs.folder / (f"{name}-3.dt" if processes == 3 else f"{name}.dt"), folder / "model.dt")
    library = context.build / "stub" / "libdtc-mpi-faults.so.1"
    code, _, said = runs.dtc(processes, text, *mpi.INPUTS, "--comm-timeout", TIMEOUT, "--output", folder / "out.npz",
                             "--trace", folder / "trace.json", limit=120,
                             mpi=["-x", f"LD_PRELOAD={library}", "-x", f"DTC_STUB_MPI={victim}:{n}:{int(fault)}"])
    begun = re.search(r"fault at ([\d.]+)", said)
    seconds = time.time() - float(begun[1]) if begun else 0
    wrong = list(complaints(said, code, case, seconds)) if begun else ["there was no fault"]
    if left := mpi.processes_left(folder):
        wrong.append(f"processes {' '.join(left)} are left")
    if files := sorted(p.name for p in folder.iterdir() if p.name != "model.dt"):
        wrong.append(f"files are left: {' '.join(files)}")
    runs.expect(f"{NAMES[fault]} of rank {victim} of {processes}, {name}, message {n}", not wrong,
                "; ".join(wrong) + "\n" + said[-3000:])


def late(runs):
    """A process that answers, and sends its message, while the others already ask why there is no progress."""
    folder = runs.folder / "late"
    folder.mkdir()
    (folder / "host.dt").write_text(mpi.HOST_OP)
    library = runs.context.build / "stub" / "libdtc-mpi-faults.so.1"
    code, out, err = runs.dtc(2, folder / "host.dt", "--input", "*=const(0.125)", "--comm-timeout", TIMEOUT, limit=120,
                              mpi=["-x", f"LD_PRELOAD={library}", "-x", f"DTC_STUB_MPI=1:1:{-(TIMEOUT * 1000 + 400)}"])
    runs.expect("a late message", code == 0 and "%s = 1.0" in out and "fault at" in err and "error" not in err, f"code {code}\n{out}{err}")


def start(runs, victim):
    """A process is stopped before it starts MPI, in which the others wait for it."""
    folder = runs.folder / f"start-{victim}"
    folder.mkdir()
    (folder / "stops.sh").write_text(f'[ "$OMPI_COMM_WORLD_RANK" = {victim} ] && kill -STOP $$\nexec "$@"\n')
    (folder / "host.dt").write_text(mpi.HOST_OP)
    begun = time.time()
    code, out, err = runs.mpirun("-n", 3, "-wdir", folder, "sh", "stops.sh", runs.context.dtc, "run", folder / "host.dt", "--comm", "mpi",
                                 "--input", "*=const(1)", "--comm-timeout", 1, limit=120)
    seconds = time.time() - begun
    told = err.count("error: ") == 1 and "error: cannot start MPI: no progress for 31 s: it waits for a process that is stopped" in err
    runs.expect(f"rank {victim} does not start", code == 3 and told and 31 <= seconds < 50 and not mpi.processes_left(folder),
                f"code {code}, {seconds:.1f} s\n{out}{err}")


def check(context):
    if not mpi.available(context) or not (context.build / "stub" / "libdtc-mpi-faults.so.1").exists():
        context.note("no faults: there is no mpirun, or the build has no plugin dtc-mpi.so or no stub of it")
        return
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(2) as pool:
        runs = mpi.Runs(context, Path(made))
        write_models(context, runs.folder)
        list(pool.map(lambda case: run(runs, case), CASES))
        late(runs)
