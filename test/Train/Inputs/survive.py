"""Kills a training run at random points, resumes it each time, also on other meshes, and compares its end with that of a
run that nothing stopped: survive.py DTC FOLDER SEED KILLS step|pipeline [MESH...] -- FLAGS"""

import os
import random
import shutil
import subprocess
import sys
import time

dtc, folder, seed, kills = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
split = sys.argv.index("--")
program, meshes, flags = sys.argv[5], sys.argv[6:split] or [""], sys.argv[split + 1 :]
here = os.path.dirname(os.path.abspath(__file__))
rand = random.Random(seed)
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
with open(f"{folder}/text.bin", "wb") as text:
    text.write(random.Random(7).randbytes(3000))

if program == "step":
    path, steps, data = f"{here}/train.dt", 300, ["tokens={}:window=9,seed=5"]
    inputs = ["emb=randn(1,0.1)", "out=randn(2,0.1)", "m_*=zeros", "count=zeros"]
else:
    path, steps = f"{folder}/pipeline.dt", 120
    data = ["tokens={}:window=8,dtype=u8,seed=5", "labels={}:window=8,offset=1,dtype=u8,seed=5"]
    inputs = ["step=const(1)", "m_*=zeros", "v_*=zeros", "*ln*_w=const(1)", "*_b=zeros", "weights=randn(7,0.02)"]
    model = "gpt --layers 4 --hidden 16 --heads 2 --seq 8 --batch 8 --microbatches 4 --mode train --optimizer adamw"
    subprocess.run([dtc, "model", *model.split(), "--parallel", "pp=2,dp=2", "-o", path], check=True)


def command(checkpoints, mesh, *more):
    made = [dtc, "run", path, "--loop", str(steps), "--checkpoint", f"{folder}/{checkpoints}", "--checkpoint-every", "3",
            "--log", f"{folder}/{checkpoints}.jsonl", "--print", "loss", *flags, *more]
    made += [word for value in data for word in ("--data", value.format(f"{folder}/text.bin"))]
    return made + [word for value in inputs for word in ("--input", value)] + (["--mesh", mesh] if mesh else [])


whole = subprocess.run(command("whole", meshes[0]), capture_output=True, text=True)
assert whole.returncode == 0, whole.stderr
killed = 0
for attempt in range(200):
    run = subprocess.Popen(command("killed", meshes[attempt % len(meshes)], "--resume"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if killed < kills:
        # Not before the run has begun, else it may get nowhere.
        lines = f"{folder}/killed.jsonl"
        before = os.path.getsize(lines) if os.path.exists(lines) else 0
        while run.poll() is None and (not os.path.exists(lines) or os.path.getsize(lines) == before):
            time.sleep(0.001)
        time.sleep(rand.random() * 0.03)
        run.kill()
    out, err = run.communicate()
    if run.returncode == 0:
        break
    assert run.returncode == -9, err.decode()
    killed += 1
    left = [name for name in os.listdir(f"{folder}/killed") if name.startswith("step-")]
    assert all(os.path.exists(f"{folder}/killed/{name}/checkpoint.json") for name in left), left
listed = subprocess.run([dtc, "checkpoint", "ls", f"{folder}/killed"], capture_output=True, text=True)
assert listed.returncode == 0, listed.stdout + listed.stderr
same = subprocess.run([dtc, "checkpoint", "diff", f"{folder}/whole", f"{folder}/killed"], capture_output=True, text=True)
print(f"killed {'enough' if killed >= min(kills, 3) else killed}, diff {same.returncode}: {same.stdout.strip()}")
losses = [[line.split(", \"tokens")[0] for line in open(f"{folder}/{name}.jsonl")] for name in ("whole", "killed")]
print("log:", "equal" if losses[0] == losses[1] else "different", len(losses[1]), "lines")
print("killed", killed, file=sys.stderr)
