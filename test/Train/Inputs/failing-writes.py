"""Lets each write of a training run fail, alone (an I/O error) and with all later ones (a full disk), and checks what is left:
failing-writes.py DTC STUB FOLDER EVERY. EVERY: only each EVERYth write, with another first one for full disks."""

import collections
import os
import shutil
import subprocess
import sys

dtc, stub, folder, every = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
here = os.path.dirname(os.path.abspath(__file__))
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
with open(f"{folder}/text.bin", "wb") as text:
    text.write(bytes(i * 7 % 251 for i in range(900)))
CALLS = "stub: "


def run(out, steps, extra=None, *more):
    """A run whose files are in the folder `out`; (exit code, standard error)."""
    os.makedirs(out, exist_ok=True)
    command = [dtc, "run", f"{here}/train.dt", "--loop", str(steps), "--data", f"tokens={folder}/text.bin:window=9",
               "--checkpoint", f"{out}/run", "--checkpoint-every", "2", "--log", f"{out}/log.jsonl",
               "--output", f"{out}/all.npz", "--output", f"emb={out}/emb.npy", "--trace", f"{out}/trace.json",
               "--print", "count", "--input", "emb=randn(1,0.1)", "--input", "out=randn(2,0.1)", "--input", "m_*=zeros",
               "--input", "count=zeros", *more]
    done = subprocess.run(command, env={**os.environ, **(extra or {})}, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stderr


def files(out):
    names = [os.path.relpath(os.path.join(at, name), out) for at, _, found in os.walk(out) for name in found]
    return {name: open(f"{out}/{name}", "rb").read() for name in names}


def steps_of(log):
    return [line.split(b", \"tokens")[0] for line in log.split(b"\n")[:-1]]


def failing(n, after):
    out = f"{folder}/out"
    shutil.rmtree(out, ignore_errors=True)
    assert run(out, 3)[0] == 0  # so that there is a checkpoint to keep
    code, err = run(out, 6, {"LD_PRELOAD": stub, "DTC_FAIL_BELOW": out, "DTC_FAIL_WRITE": str(n),
                             "DTC_FAIL_AFTER": str(int(after))}, "--resume")
    call = next((line for line in err.splitlines() if line.startswith(CALLS)), "")
    if not call:
        assert code == 0, err
        return ""
    told = [line for line in err.splitlines() if line.startswith("error: cannot ") and line.endswith(" [machine]")]
    # A checkpoint that cannot be removed stays; nothing else may go wrong unsaid.
    assert (code, len(told)) == (3, 1) or (code == 0 and call == "stub: rename fails" and not after), (code, err)
    left = files(out)
    known = {"run/.lock", "log.jsonl", "all.npz", "emb.npy", "trace.json"}
    assert all(name in known or name.startswith("run/step-") for name in left), sorted(left)
    for name in known - {"log.jsonl", "run/.lock"}:  # complete or the one before
        assert name == "trace.json" or left.get(name) in (before.get(name), whole.get(name)), name
    listed = subprocess.run([dtc, "checkpoint", "ls", f"{out}/run"], capture_output=True, text=True)
    assert listed.returncode == 0 and "step" in listed.stdout, listed.stdout + listed.stderr
    code, err = run(out, 6, None, "--resume")
    # All steps may have been taken before the results were written.
    assert code == 0 or (code == 2 and "was not written, and no step is left" in err), (code, err)
    same = subprocess.run([dtc, "checkpoint", "diff", f"{folder}/whole/run", f"{out}/run"], capture_output=True, text=True)
    assert same.returncode == 0, same.stdout + same.stderr
    assert steps_of(files(out)["log.jsonl"]) == steps_of(whole["log.jsonl"]), files(out)["log.jsonl"]
    return call


assert run(f"{folder}/before", 3)[0] == 0 and run(f"{folder}/whole", 6)[0] == 0
before, whole = files(f"{folder}/before"), files(f"{folder}/whole")
calls = collections.Counter()
for after in (False, True):
    n = 1 + after * (every // 2)
    while True:
        try:
            call = failing(n, after)
        except AssertionError as wrong:
            print(f"call {n}{' and later ones' if after else ''}: {wrong}")
            call = "wrong"
        if not call:
            break
        calls[call.removeprefix(CALLS).removesuffix(" fails")] += 1
        n += every
print("wrong:", calls.pop("wrong", 0))
print("failed:", ", ".join(f"{name} {n}" for name, n in sorted(calls.items())))
