"""Compile times: the rows of the compile table, against peers that compile the same model (bench/compile.sh).

Processor time (user + system) of the process where one thread does the work, wall time where several do; the minimum of
several runs.
Peers: the same GPT written in JAX (lower + compile) and PyTorch (torch.compile, the first call less a later one), forward and gradients."""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from cpu import machine

GPT = ["gpt", "--layers", "12", "--hidden", "256", "--heads", "4", "--vocab", "1024", "--seq", "64", "--batch", "4", "--mode", "train"]


ROW_OPS = ("softmax %x{i} {{dims = [1]}}", "log_softmax %x{i} {{dims = [1]}}", "rms_norm %x{i}, %w{i} {{dims = [1]}}",
           "layer_norm %x{i}, %w{i}, %b{i} {{dims = [1]}}")


def row_kernels():
    """A program of 16 row kernels: four ops, four row lengths, f32 and bf16."""
    arguments, lines, results = [], [], []
    for i in range(16):
        columns, op = 1024 << i // 4, ROW_OPS[i % 4]
        dtype = ("f32", "bf16")[(i // 4 + i) % 2]
        arguments.append(f"%x{i}: {dtype}[4096, {columns}]")
        arguments += [f"%{name}{i}: {dtype}[{columns}]" for name in "wb" if f"%{name}" in op]
        results.append(f"%y{i}: {dtype}[4096, {columns}]")
        lines.append(f"  %y{i} = " + op.format(i=i))
    lines.append("  return " + ", ".join(f"%y{i}" for i in range(16)))
    return f"func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n" + "\n".join(lines) + "\n}\n"


class Compile:
    def __init__(self, options):
        self.options, self.dtc = options, str(pathlib.Path(options.build) / "bin/dtc")
        self.folder = tempfile.TemporaryDirectory()

    def model(self, *arguments):
        path = pathlib.Path(self.folder.name) / f"{len(list(pathlib.Path(self.folder.name).iterdir()))}.dt"
        path.write_text(subprocess.run([self.dtc, "model", *arguments], check=True, capture_output=True, text=True).stdout)
        return str(path)

    def measure(self, *command, cache=None, runs=None):
        """(processor seconds, wall seconds, MiB), each the minimum of the runs."""
        environment = dict(os.environ, XDG_CACHE_HOME=cache or self.folder.name)
        best = (1e9, 1e9, 1e9)
        for _ in range(runs or self.options.runs):
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(["/usr/bin/env", self.dtc, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode:
                sys.exit(f"dtc {' '.join(command)}: {done.stderr}")
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best = tuple(min(a, b) for a, b in zip(best, (used, wall, after.ru_maxrss / 1024)))
        return best

    def nvrtc_rows(self):
        """Kernels for a GPU; needs NVRTC, but no GPU."""
        path = pathlib.Path(self.folder.name) / "rows.dt"
        path.write_text(row_kernels())
        # As `dtc run` compiles them; `--emit cubin` compiles all once more, into one image.
        command = ["compile", str(path), "--target", "sm_90a", "--emit", "kernels", "-o", self.folder.name + "/kernels"]
        first = subprocess.run([self.dtc, *command], env=dict(os.environ, XDG_CACHE_HOME=self.folder.name + "/nvrtc"), capture_output=True, text=True)
        if first.returncode == 3:
            print(f"kernels for a GPU: {first.stderr.strip()}")
            return
        warm = self.measure(*command, cache=self.folder.name + "/nvrtc")
        cold = min(self.measure(*command, cache=f"{self.folder.name}/nvrtc{i}", runs=1)[0] for i in range(self.options.runs))
        yield "a row kernel for sm_90a by NVRTC, no cache (16 of them, the library's opening in it)", 0.06, "s of processor", (cold - warm[0]) / 16
        yield "the same from the cache: all of dtc, over 16 kernels", 0.005, "s of wall", warm[1] / 16

    def until_loaded(self, command):
        """Seconds of all phases of --timing up to the loading of kernels."""
        environment = dict(os.environ, XDG_CACHE_HOME=self.folder.name)
        shown = subprocess.run([self.dtc, *command, "--timing"], env=environment, capture_output=True, text=True).stderr
        milliseconds = 0.0
        for line in shown.splitlines():
            words = line.split()
            if line.startswith("//") and words[2:3] == ["ms"]:
                milliseconds += float(words[1])
                if "load kernels" in line:
                    return milliseconds / 1e3
        sys.exit("dtc run --timing shows no 'load kernels'")

    def rows(self):
        gpt = self.model(*GPT, "--parallel", "dp=2,tp=4")
        alone = self.model(*GPT)
        yield "GPT, 12 layers, dp=2,tp=4: text to schedule", 0.04, "s of processor", self.measure("compile", gpt, "--emit", "schedule")[0]
        cold = []
        for i in range(self.options.runs):
            cold.append(self.measure("compile", alone, "--emit", "asm", "-o", self.folder.name + f"/asm{i}", cache=f"{self.folder.name}/cold{i}", runs=1)[1])
        yield "the same on one device, to CPU code, no cache", 2.0, "s of wall", min(cold)
        run = ["run", alone, "--input", "*=zeros", "--print", "loss"]
        self.measure(*run, runs=1)
        yield "the same, kernels from the cache: passes, printing, loading", 0.1, "s of wall", min(self.until_loaded(run) for _ in range(self.options.runs))
        yield "and with the library's products made, the inputs and one run", None, "s of wall", self.measure(*run)[1]
        yield from self.nvrtc_rows()
        big = ["llama", "--size", "405b", "--dtype", "bf16", "--mode", "train", "--parallel", "dp=16,fsdp=16,cp=8,tp=8,sp", "--layers"]
        times, memory = {}, {}
        for layers in (126, 1260):
            program = self.model(*big, str(layers))
            times[layers], _, memory[layers] = self.measure("compile", program, "--emit", "schedule", runs=self.options.runs if layers == 126 else 1)
            if layers == 126:
                schedule = subprocess.run([self.dtc, "compile", program, "--emit", "schedule"], check=True, capture_output=True, text=True).stdout
                ops = sum(line.lstrip().startswith("%") for line in schedule.splitlines())
        yield f"Llama train step, 126 layers (the 405B shape; {ops} ops in the schedule), 16,384 devices: text to schedule", 1.0, "s of processor", times[126]
        yield "the same: memory at most", 1024, "MiB", memory[126]
        yield "1260 layers over 126", 12, "times", times[1260] / times[126]
        text = self.model(*big, "1260")
        megabytes = os.path.getsize(text) / 1e6
        base = self.measure("opt", self.model("mlp"))[0]
        yield "parse and print (10 MB of text)", -50, "MB/s of processor time", megabytes / max(1e-9, self.measure("opt", text)[0] - base)


PEER = r'''
import sys, time
peer, threads = sys.argv[1], int(sys.argv[2])
L, H, HEADS, V, S, B = 12, 256, 4, 1024, 64, 4
import numpy as np
r = np.random.default_rng(0)
shapes = dict(te=(V, H), pe=(S, H), lw=(H,), lb=(H,))
for i in range(L):
    shapes |= {f"{i}w1": (H,), f"{i}b1": (H,), f"{i}w2": (H,), f"{i}b2": (H,), f"{i}u": (H, 4 * H), f"{i}ub": (4 * H,), f"{i}d": (4 * H, H), f"{i}db": (H,)}
    shapes |= {f"{i}{n}": (H, H) for n in "qkvo"} | {f"{i}{n}b": (H,) for n in "qkvo"}
values = {n: (r.standard_normal(s) * 0.02).astype(np.float32) for n, s in shapes.items()}
tokens = r.integers(0, V, (B, S)); labels = r.integers(0, V, (B, S))
if peer == "jax":
    import jax, jax.numpy as jnp
    def norm(x, w, b):
        c = x - x.mean(-1, keepdims=True)
        return c * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * w + b
    def loss(p, tokens, labels):
        x = p["te"][tokens] + p["pe"]
        for i in range(L):
            h = norm(x, p[f"{i}w1"], p[f"{i}b1"])
            q, k, v = ((h @ p[f"{i}{n}"] + p[f"{i}{n}b"]).reshape(B, S, HEADS, -1).transpose(0, 2, 1, 3) for n in "qkv")
            s = q @ k.swapaxes(-1, -2) / (H // HEADS) ** 0.5
            a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((S, S), bool)), s, -jnp.inf)) @ v
            x = x + a.transpose(0, 2, 1, 3).reshape(B, S, H) @ p[f"{i}o"] + p[f"{i}ob"]
            h = norm(x, p[f"{i}w2"], p[f"{i}b2"])
            x = x + jax.nn.gelu(h @ p[f"{i}u"] + p[f"{i}ub"]) @ p[f"{i}d"] + p[f"{i}db"]
        logits = norm(x, p["lw"], p["lb"]) @ p["te"].T
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()
    def step(p, tokens, labels):
        value, g = jax.value_and_grad(loss)(p, tokens, labels)
        return value, jax.tree.map(lambda a, b: a - 0.01 * b, p, g)
    jax.jit(lambda a: a + 1)(1.0)
    begin = time.perf_counter()
    jax.jit(step).lower(values, tokens, labels).compile()
    print(time.perf_counter() - begin)
else:
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads)
    p = {n: torch.from_numpy(v).requires_grad_() for n, v in values.items()}
    t, l = torch.from_numpy(tokens), torch.from_numpy(labels)
    def loss(p, t, l):
        x = p["te"][t] + p["pe"]
        for i in range(L):
            h = F.layer_norm(x, (H,), p[f"{i}w1"], p[f"{i}b1"])
            q, k, v = ((h @ p[f"{i}{n}"] + p[f"{i}{n}b"]).view(B, S, HEADS, -1).transpose(1, 2) for n in "qkv")
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + a.transpose(1, 2).reshape(B, S, H) @ p[f"{i}o"] + p[f"{i}ob"]
            h = F.layer_norm(x, (H,), p[f"{i}w2"], p[f"{i}b2"])
            x = x + F.gelu(h @ p[f"{i}u"] + p[f"{i}ub"], approximate="tanh") @ p[f"{i}d"] + p[f"{i}db"]
        return F.cross_entropy((F.layer_norm(x, (H,), p["lw"], p["lb"]) @ p["te"].T).view(-1, V), l.view(-1))
    torch.compile(lambda a: a + 1)(torch.ones(4))
    run = torch.compile(loss)
    begin = time.perf_counter()
    run(p, t, l).backward()
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    run(p, t, l).backward()
    print(first - (time.perf_counter() - begin))
'''


def peer_seconds(python, peer, threads, folder):
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder + "/inductor", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    done = subprocess.run([python, "-c", PEER, peer, str(threads)], capture_output=True, text=True, env=environment)
    return float(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout.split() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", help="the python with the peers, or none (build/peers)")
    options = parser.parse_args()
    bench, about, rows = Compile(options), machine(), []
    for what, target, unit, value in bench.rows():
        held = None if target is None else value >= -target if target < 0 else value <= target
        said = "" if target is None else f"target {abs(target):>6} {'held' if held else 'MISSED'}"
        print(f"{value:10.3f} {unit:24} {said:21} {what}", flush=True)
        rows.append({"what": what, "value": value, "unit": unit, "target": target and abs(target), "held": held})
    python = options.peers or str(pathlib.Path(options.build).parent / "peers/bin/python")
    cold = next(r["value"] for r in rows if "no cache" in r["what"])
    for peer in ("jax", "torch") if shutil.which(python) and options.peers != "none" else ():
        taken = peer_seconds(python, peer, os.cpu_count(), bench.folder.name)
        if taken is None:
            print(f"peer {peer} is absent, or could not compile the model")
            continue
        print(f"{taken:10.3f} {'s of wall':24} {peer}: {taken / cold:.1f} times as long as dtc to CPU code, without cache")
        rows.append({"what": f"{peer} compiles the same model", "value": taken, "unit": "s of wall", "times_dtc": taken / cold})
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    report = {"machine": about, "load_after": list(os.getloadavg()), "command": " ".join(["bench/compile.sh", *sys.argv[5:]]), "rows": rows}
    (out / "compile.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
