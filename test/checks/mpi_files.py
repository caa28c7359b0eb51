"""Training runs, results and inputs of several processes (for mpi.py): files that they write together, and what each reads."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

GPT = "gpt --vocab 256 --seq 16 --batch 8 --layers 1 --mode train --optimizer adamw --parallel dp=2,tp=4,sp"
TEXT = bytes(i * i * 7 % 251 for i in range(30000))
INPUTS = ["step=const(1)", "m_*=zeros", "v_*=zeros", "*ln*_w=const(1)", "*_b=zeros", "weights=randn(7,0.02)"]


def train_flags(flag, begin):
    return [flag, f"tokens=../text.bin:window=16,dtype=u8,offset={begin}",
            flag, f"labels=../text.bin:window=16,dtype=u8,offset={begin + 1}"]


def train(runs, folder, processes, steps, *flags, mpi=()):
    """`steps` steps of a GPT in a folder of its own."""
    (runs.folder / folder).mkdir(exist_ok=True)
    inputs = [word for text in INPUTS for word in ("--input", text)]
    return runs.dtc(processes, "../train.dt", *inputs, *train_flags("--data", 0), "--loop", steps, "--reduction-order", "fixed",
                    "--print", "loss", "--checkpoint", "run", "--checkpoint-every", 2, "--log", "log.jsonl", *flags,
                    mpi=["-wdir", runs.folder / folder, *mpi])


def log_of(folder):
    """Without times."""
    return [line.split(', "tokens_per_s"')[0] for line in (folder / "log.jsonl").read_text().splitlines()]


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def prepare(runs):
    runs.context.run(runs.context.dtc, "model", *GPT.split(), "-o", runs.folder / "train.dt")
    (runs.folder / "text.bin").write_bytes(TEXT)


def checkpoints(runs):
    """The same files as one process, from which any number of processes goes on, on a mesh that shrinks, too."""
    evaluation = [*train_flags("--eval", 20000), "--eval-every", 3]
    code, out, err = train(runs, "one", 1, 6, "--checkpoint-keep", 9, *evaluation)
    one = runs.folder / "one"
    runs.expect("training of one process", code == 0 and out == "loss = " + out[7:] and len(log_of(one)) == 6, f"{code}\n{out}{err}")
    for processes in (2, 8):
        folder = runs.folder / f"many-{processes}"
        code, own, err = train(runs, folder.name, processes, 6, "--checkpoint-keep", 9, *evaluation)
        same = code == 0 and own == out and files_of(folder / "run") == files_of(one / "run") and log_of(folder) == log_of(one)
        runs.expect(f"training of {processes} processes", same, f"code {code}, or other files\n{own}{err[-2000:]}")
    # On 4, 2, then 2 processes, of which each has half of a mesh that lost a half.
    steps = [train(runs, "parts", 4, 2), train(runs, "parts", 2, 4, "--resume"),
             train(runs, "parts", 2, 6, "--resume", "--mesh", "pod=dp:1,tp:4")]
    done = runs.context.run(runs.context.dtc, "checkpoint", "diff", one / "run", runs.folder / "parts" / "run")
    good = [s[0] for s in steps] == [0, 0, 0] and done.stdout == "0 of 61 tensors differ\n"
    log = [json.loads(line)["loss"] for line in log_of_lines(runs.folder / "parts")]
    runs.expect("resumed runs", good and log == [json.loads(line)["loss"] for line in log_of_lines(one)], f"{steps}\n{done.stdout}")
    code, out, err = train(runs, "parts", 2, 6)
    runs.expect("no --resume", code == 2 and err.count("error:") == 1 and "has checkpoints" in err, f"{code}\n{err}")
    state = runs.folder / "parts" / "run" / "step-00000006" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1] + b"!")
    code, out, err = train(runs, "parts", 4, 8, "--resume")
    runs.expect("damaged", code == 1 and err.count("error:") == 1 and "does not have the SHA-256" in err, f"{code}\n{err}")


def log_of_lines(folder):
    return (folder / "log.jsonl").read_text().splitlines()


def train_with_stub(runs, folder, victim, settings, steps, *flags):
    """A run of 2 processes, of which one has the stub of a disk, with these settings."""
    (folder / "preload.sh").write_text(
        f'[ "$OMPI_COMM_WORLD_RANK" = {victim} ] && export LD_PRELOAD={runs.context.build}/stub/libdtc-writes.so.1 '
        f'DTC_FAIL_BELOW={folder}/run/.writing {settings}\nexec "$@"\n')
    inputs = [word for text in INPUTS for word in ("--input", text)]
    return runs.mpirun(
        "-n", 2, "-wdir", folder, "sh", "preload.sh", runs.context.dtc, "run", "../train.dt", *inputs,
        *train_flags("--data", 0), "--loop", steps, "--reduction-order", "fixed", "--checkpoint", "run",
        "--checkpoint-every", 2, *flags, "--comm", "mpi")


def full_disk(runs):
    """A process that cannot write its part: one message, the older checkpoints stay, and nothing else."""
    stub = runs.context.build / "stub" / "libdtc-writes.so.1"
    for victim in (0, 1):
        folder = runs.folder / f"full-{victim}"
        good = train(runs, folder.name, 2, 2)
        fails = ["-x", f"DTC_FAIL_BELOW={folder}/run/.writing", "-x", "DTC_FAIL_AFTER=1"]
        mpi = ["-x", f"LD_PRELOAD={stub}", *fails] if victim == 0 else []
        if victim == 0:  # each process counts its own calls: both fail
            code, out, err = train(runs, folder.name, 2, 6, "--resume", mpi=[*mpi, "-x", "DTC_FAIL_WRITE=9"])
        else:
            code, out, err = train_with_stub(runs, folder, 1, "DTC_FAIL_AFTER=1 DTC_FAIL_WRITE=9", 6, "--resume")
        left = sorted(p.name for p in (folder / "run").iterdir())
        told = err.count("error: ") == 1 and re.search(rf"error: (rank {victim} on \S+: )?cannot write '[^']*state.safetensors'", err)
        runs.expect(f"full disk of rank {victim}", good[0] == 0 and code == 3 and told and left == [".lock", "step-00000002"],
                    f"code {code}, {left}\n{err[-2000:]}")


def stopped(runs):
    """A process that stops while it writes a checkpoint: one message, for the checkpoint of the last step too."""
    for victim in (0, 1):
        for steps in (2, 50):
            folder = runs.folder / f"stopped-{victim}-{steps}"
            folder.mkdir()
            code, _, err = train_with_stub(runs, folder, victim, "DTC_STOP_WRITE=5", steps, "--comm-timeout", 2)
            told = err.count("error: ") == 1 and re.search(rf"no answer from rank {victim} on ", err)
            runs.expect(f"a checkpoint of {steps} steps, without rank {victim}", code == 3 and told, f"code {code}\n{err[-2000:]}")


def interrupted(runs):
    """SIGUSR1 to mpirun: a checkpoint. SIGTERM or SIGHUP to one process: all take the same last step, and write one."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signalled(runs, number)


def signalled(runs, number):
    folder = runs.folder / f"stopped-{number.name}"
    folder.mkdir()
    inputs = [word for text in INPUTS for word in ("--input", text)]
    command = ["env", *runs.env, "mpirun", "-n", "2", "-wdir", folder, runs.context.dtc, "run", "../train.dt", *inputs,
               *train_flags("--data", 0), "--loop", "1000000", "--checkpoint", "run", "--checkpoint-keep", "9", "--log", "log.jsonl",
               "--print", "loss", "--comm", "mpi"]
    job = subprocess.Popen([str(word) for word in command], cwd=runs.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log, until = folder / "log.jsonl", time.time() + 60

    def wait(for_what):
        while not for_what() and time.time() < until:
            time.sleep(0.05)

    wait(lambda: log.exists() and log.read_text().count("\n") > 3)
    ranks = subprocess.run(["pgrep", "-P", str(job.pid), "-x", "dtc"], capture_output=True, text=True).stdout.split()
    late = number == signal.SIGTERM and len(ranks) == 2
    if late:  # one request, although the processes get it at different steps
        subprocess.run(["kill", "-USR1", ranks[1]])
    else:
        job.send_signal(signal.SIGUSR1)  # mpirun passes it on to all
    wait(lambda: list((folder / "run").glob("step-*")))
    if late:
        subprocess.run(["kill", "-USR1", ranks[0]])
    lines = log.read_text().count("\n")
    wait(lambda: log.read_text().count("\n") > lines + 5)
    for rank in ranks[1:]:
        subprocess.run(["kill", f"-{int(number)}", rank])
    out, err = job.communicate(timeout=60)
    asked = re.search(r"note: SIGUSR1: a checkpoint after step (\d+)\n", err)
    stopped = re.search(r"note: stopped by a signal after step (\d+), with a checkpoint", err)
    kept = asked and stopped and err.count("note: SIGUSR1") == 1 and all((folder / "run" / f"step-{int(m[1]):08}" / "checkpoint.json").exists() for m in (asked, stopped))
    runs.expect(number.name, len(ranks) == 2 and job.returncode == 0 and kept and out.startswith("loss = "),
                f"{ranks}, code {job.returncode}\n{out}{err}")


def results(runs):
    """Files of --output that several processes write together, and lines of --log-ops, as in one process."""
    text = """mesh @m = [a=2, b=4]
func @main(%x: f32[24, 40] @m{a, b}, %z: f32[8] @m{b}) -> (%y: f32[24, 40] @m{a, b}, %w: f32[40, 24] @m{b, _}, %s: f32[],
    %n: f32[8] @m{b}) {
  %y = mul %x, 2.0
  %w = transpose %x {perm = [1, 0]}
  %s = sum %x
  %n = log %z
  return %y, %w, %s, %n
}
"""
    (runs.folder / "out.dt").write_text(text)
    outputs = ["all.safetensors", "y=y.npy", "w=w.safetensors", "s=s.npy"]
    runs_of = {}
    for processes in (1, 4):
        folder = runs.folder / f"out-{processes}"
        folder.mkdir()
        code, out, err = runs.dtc(processes, "../out.dt", "--input", "x=randn(1)", "--input", "z=const(-1)", "--reduction-order",
                                  "fixed", *[word for o in outputs for word in ("--output", o)], "--print", "s",
                                  mpi=["-wdir", folder])
        notes = [line for line in err.splitlines() if "NaN" in line]
        runs_of[processes] = (code, out, notes, files_of(folder))
        alike = code == 0 and len(notes) == 1 and "n: 8 of 8 elements are NaN" in notes[0] and len(files_of(folder)) == 4
        runs.expect(f"results of {processes}", alike and runs_of[processes] == runs_of[1], f"{code}\n{out}{err}")
    alone = runs.context.run(runs.context.dtc, "run", "out.dt", "--input", "x=randn(1)", "--input", "z=const(-1)",
                             "--reduction-order", "fixed", "--output", "alone.safetensors", cwd=runs.folder)
    same = (runs.folder / "alone.safetensors").read_bytes() == runs_of[1][3]["all.safetensors"]
    runs.expect("results without MPI", alone.returncode == 0 and same, alone.stderr)
    code, out, err = runs.dtc(2, "out.dt", "--input", "*=const(1)", "--output", "y=none/y.npy")
    runs.expect("results without folder", code == 2 and err.count("error:") == 1 and "--output: 'none' is not a folder" in err, f"{code}\n{err}")
    code, out, err = runs.dtc(2, "out.dt", "--input", "*=const(1)", "--output", "y=/proc/y.npy")
    runs.expect("results that cannot be written", code == 3 and err.count("error:") == 1 and "cannot write '/proc/y.npy'" in err, f"{code}\n{err}")
    logs = []
    for processes in (1, 4):
        code, out, err = runs.dtc(processes, "out.dt", "--input", "*=const(1)", "--log-ops", "--print", "s")
        logs.append([line for line in err.splitlines() if line.startswith("device ")])
        devices = [line.split(":")[0] for line in logs[-1] if "all_reduce" in line or "kernel" in line]
        runs.expect(f"--log-ops {processes}", code == 0 and devices == sorted(devices) and len(set(devices)) == 8, f"{code}\n{err}")
    runs.expect("--log-ops", sorted(logs[0]) == sorted(logs[1]), f"{logs}")
    usage(runs)


def reads(runs):
    """Each process reads its share of the inputs, and of a checkpoint."""
    stub = runs.context.build / "stub" / "libdtc-writes.so.1"
    (runs.folder / "big.dt").write_text("""mesh @m = [a=4]
func @main(%x: f32[100, 8000] @m{a, _}, %r: f32[100, 8000] @m{_, a}, %t: f32[100, 8000] @m{a, _}) -> (%s: f32[],
    %t: f32[100, 8000] @m{a, _} {carry = true}) {
  %y = add %x, %r
  %s = sum %y
  %u = add %t, 1.0
  return %s, %u
}
""")
    folder = runs.folder / "big"
    folder.mkdir()
    size = 100 * 8000 * 4
    header = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (100, 8000), }".ljust(117) + b"\n"
    (folder / "x.npy").write_bytes(header + bytes(size))
    (folder / "r.raw").write_bytes(bytes(size))
    entry = json.dumps({"t": {"dtype": "F32", "shape": [100, 8000], "data_offsets": [0, size]}}).encode()
    (folder / "t.safetensors").write_bytes(len(entry).to_bytes(8, "little") + entry + bytes(size))
    names = ["--input", "big/x.npy", "--input", "r=raw:big/r.raw", "--input", "t=big/t.safetensors"]
    names[1] = "x=big/x.npy"
    slack = 300000 + 4 * 64 * 4096  # headers, by which formats are known, and gaps; blocks that are compared
    for resume, total, steps in ((False, 3 * size, 1), (True, 3 * size + size, 2)):
        flags = ["--loop", steps, "--checkpoint", "big/run", "--print", "s", *["--resume"] * resume]
        code, out, err = runs.dtc(4, "big.dt", *names, *flags, mpi=["-x", f"LD_PRELOAD={stub}", "-x", f"DTC_COUNT_READS={folder}"])
        read = [int(n) for n in re.findall(r"stub: (\d+) bytes read", err)]
        good = code == 0 and len(read) == 4 and all(total // 4 <= n <= total // 4 + slack for n in read)
        runs.expect(f"bytes read{' with --resume' * resume}", good, f"code {code}, {read} of {total}\n{err[-1500:]}")


def usage(runs):
    """Errors of the command line come once, before MPI has started."""
    for flags in (["--backend", "foo"], ["--comm", "foo"], ["--lop", "3"], ["--devices-per-process", "0"], ["--backend", "cuda-emu"]):
        got, out, err = runs.dtc(4, "out.dt", *flags)
        runs.expect(f"usage {flags}", got == 2 and err.count("error:") == 1 and flags[0].strip("-")[:7] in err, f"code {got}\n{err}")
    got, out, err = runs.mpirun("-n", 1, runs.context.dtc, "run", "out.dt", "--comm", "mpi", "--input", "*=zeros", ":",
                                "-n", 1, runs.context.dtc, "run", "out.dt", "--comm", "mpi", "--lop")
    runs.expect("usage of rank 1", got == 2 and err.count("error:") == 1 and "--lop" in err, f"code {got}\n{err}")


def recipes_of(page):
    """The training steps of docs/parallelism.md, on 8 devices where the page has 4."""
    flags = re.findall(r"^dtc model (gpt|mixtral) [^|]*?(--parallel [^|]*?) \| dtc explain", page, re.M)
    for model, parallel in sorted(set(flags)):
        if "dp=" in parallel.replace("fsdp=", ""):
            parallel = re.sub(r"\bdp=(\d+)", lambda size: f"dp={2 * int(size[1])}", parallel)
        else:
            parallel = parallel.replace("--parallel ", "--parallel dp=2,")
        yield f"{model} --seq 16 --batch 16 --layers 1 --mode train --optimizer adamw {parallel}"


def recipes(runs):
    """They have the bits of one process with a fixed order: a few, or all with DTC_MPI_RECIPES=1."""
    found = list(recipes_of((runs.context.root / "docs" / "parallelism.md").read_text()))
    runs.expect("recipes of docs/parallelism.md", len(found) >= 10, f"{found}")
    every = os.environ.get("DTC_MPI_RECIPES") == "1"
    for number, flags in enumerate(found if every else [f for f in found if "ulysses" in f or "--zero 2" in f]):
        text, one = runs.folder / f"recipe-{number}.dt", runs.folder / f"recipe-{number}-1.npz"
        made = runs.context.run(runs.context.dtc, "model", *flags.split(), "-o", text)
        run = [text, "--input", "step=const(1)", "--input", "*=randn(1,0.1)", "--reduction-order", "fixed", "--output"]
        alone = runs.context.run(runs.context.dtc, "run", *run, one)
        runs.expect(f"recipe {flags}", made.returncode == alone.returncode == 0, made.stderr + alone.stderr[-2000:])
        for processes in (2, 4, 8) if every else (4,):
            many = runs.folder / f"recipe-{number}-{processes}.npz"
            code, out, err = runs.dtc(processes, *run, many)
            same = code == 0 and many.exists() and many.read_bytes() == one.read_bytes()
            runs.expect(f"recipe {flags}, {processes} processes", same, f"code {code}, or other bits\n{err[-2000:]}")


def checks(runs):
    if not shutil.which("pgrep"):
        return [checkpoints, results, recipes]
    stub = (runs.context.build / "stub" / "libdtc-writes.so.1").exists()
    return [checkpoints, interrupted, results, recipes] + [full_disk, stopped, reads] * stub
