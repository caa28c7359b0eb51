"""Training runs, results and inputs of several processes (for mpi.py): files that they write together, and what each reads."""

import json
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
    for processes in (2, 4, 8):
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
            (folder / "preload.sh").write_text(
                f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && export LD_PRELOAD={stub} DTC_FAIL_BELOW={folder}/run/.writing '
                'DTC_FAIL_AFTER=1 DTC_FAIL_WRITE=9\nexec "$@"\n')
            inputs = [word for text in INPUTS for word in ("--input", text)]
            code, out, err = runs.mpirun(
                "-n", 2, "-wdir", folder, "sh", "preload.sh", runs.context.dtc, "run", "../train.dt", *inputs,
                *train_flags("--data", 0), "--loop", 6, "--reduction-order", "fixed", "--checkpoint", "run",
                "--checkpoint-every", 2, "--resume", "--comm", "mpi")
        left = sorted(p.name for p in (folder / "run").iterdir())
        told = err.count("error: ") == 1 and re.search(rf"error: (rank {victim} on \S+: )?cannot write '[^']*state.safetensors'", err)
        runs.expect(f"full disk of rank {victim}", good[0] == 0 and code == 3 and told and left == [".lock", "step-00000002"],
                    f"code {code}, {left}\n{err[-2000:]}")


def interrupted(runs):
    """SIGTERM to one process: all take the same last step, and write a checkpoint."""
    folder = runs.folder / "stopped"
    folder.mkdir()
    inputs = [word for text in INPUTS for word in ("--input", text)]
    command = ["env", *runs.env, "mpirun", "-n", "2", "-wdir", folder, runs.context.dtc, "run", "../train.dt", *inputs,
               *train_flags("--data", 0), "--loop", "1000000", "--checkpoint", "run", "--log", "log.jsonl", "--print", "loss",
               "--comm", "mpi"]
    job = subprocess.Popen([str(word) for word in command], cwd=runs.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = folder / "log.jsonl"
    until = time.time() + 60
    while not (log.exists() and log.read_text().count("\n") > 3) and time.time() < until:
        time.sleep(0.05)
    ranks = subprocess.run(["pgrep", "-P", str(job.pid), "-x", "dtc"], capture_output=True, text=True).stdout.split()
    for rank in ranks[1:]:
        subprocess.run(["kill", f"-{int(signal.SIGTERM)}", rank])
    out, err = job.communicate(timeout=60)
    stopped = re.search(r"note: stopped by a signal after step (\d+), with a checkpoint", err)
    kept = stopped and (folder / "run" / f"step-{int(stopped[1]):08}" / "checkpoint.json").exists()
    runs.expect("SIGTERM", len(ranks) == 2 and job.returncode == 0 and kept and out.startswith("loss = "),
                f"{ranks}, code {job.returncode}\n{out}{err}")


def checks(runs):
    if not shutil.which("pgrep"):
        return [checkpoints]
    stub = (runs.context.build / "stub" / "libdtc-writes.so.1").exists()
    return [checkpoints, interrupted] + [full_disk] * stub
