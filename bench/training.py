"""The same training run by dtc, PyTorch (eager and torch.compile) and JAX: a GPT with AdamW, from the same weights, on the same batch.

The model is that of `dtc model gpt`. Losses are compared step by step; times are of whole steps, in alternating rounds."""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

from cpu import interval, machine

RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


def arguments(text):
    """Names and shapes of the arguments of @main."""
    head = text[text.index("func @main("):]
    return [(n, t, tuple(int(d) for d in s.split(",") if d.strip()))
            for n, t, s in re.findall(r"%(\w+):\s+(\w+)\[([^\]]*)\]", head[:head.index("->")])]


def inputs(options, text):
    rng = np.random.default_rng(7)
    values = {}
    for name, dtype, shape in arguments(text):
        if dtype == "i32" and shape:
            values[name] = rng.integers(0, options.vocab, shape, dtype=np.int32)
        elif dtype == "f32" and not name.startswith(("m_", "v_")):
            scale = 1 if re.search(r"ln\d?_w$", name) else 0
            values[name] = (scale + 0.02 * rng.standard_normal(shape)).astype(np.float32)
    return values


def forward(x, p, o):
    """The loss, by functions of either library: x has matmul, layer_norm, gelu, attention, cross_entropy."""
    h = x.take(p["tok_emb"], p["tokens"]) + p["pos_emb"]
    for i in range(o.layers):
        w = {k.removeprefix(f"blocks_{i}_"): v for k, v in p.items() if k.startswith(f"blocks_{i}_")}
        n = x.layer_norm(h, w["ln1_w"], w["ln1_b"])
        q, k, v = (x.heads(n @ w[f"attn_{c}_w"] + w[f"attn_{c}_b"], o.heads) for c in "qkv")
        h = h + x.joined(x.attention(q, k, v)) @ w["attn_out_w"] + w["attn_out_b"]
        n = x.layer_norm(h, w["ln2_w"], w["ln2_b"])
        h = h + x.gelu(n @ w["mlp_up_w"] + w["mlp_up_b"]) @ w["mlp_down_w"] + w["mlp_down_b"]
    h = x.layer_norm(h, p["ln_w"], p["ln_b"])
    return x.cross_entropy(h @ x.transposed(p["tok_emb"]), p["labels"])


class Torch:
    def __init__(self, options, values, compiled):
        import torch
        import torch.nn.functional as f
        self.torch, self.f = torch, f
        torch.set_num_threads(options.threads)
        self.data = {k: torch.tensor(v).long() for k, v in values.items() if v.dtype == np.int32}
        self.weights = {k: torch.tensor(v, requires_grad=True) for k, v in values.items() if v.dtype == np.float32}
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=DECAY)
        loss = lambda weights: forward(self, {**weights, **self.data}, options)
        self.loss, self.version = torch.compile(loss) if compiled else loss, torch.__version__

    take = lambda self, table, i: self.f.embedding(i, table)
    layer_norm = lambda self, x, w, b: self.f.layer_norm(x, w.shape, w, b)
    gelu = lambda self, x: self.f.gelu(x, approximate="tanh")
    heads = lambda self, x, n: x.unflatten(-1, (n, -1)).transpose(1, 2)
    joined = lambda self, x: x.transpose(1, 2).flatten(2)
    attention = lambda self, q, k, v: self.f.scaled_dot_product_attention(q, k, v, is_causal=True)
    transposed = lambda self, x: x.t()
    cross_entropy = lambda self, x, y: self.f.cross_entropy(x.flatten(0, 1), y.flatten())

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.weights)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Jax:
    def __init__(self, options, values):
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import jax.numpy as jnp
        self.jax, self.jnp, self.version = jax, jnp, jax.__version__
        data = {k: jnp.asarray(v) for k, v in values.items() if v.dtype == np.int32}
        weights = {k: jnp.asarray(v) for k, v in values.items() if v.dtype == np.float32}
        zeros = [{k: jnp.zeros_like(v) for k, v in weights.items()} for _ in range(2)]  # of their own: they are donated
        self.state = (weights, *zeros, jnp.int32(1))

        def step(state):
            weights, m, v, t = state
            loss, g = jax.value_and_grad(lambda w: forward(self, {**w, **data}, options))(weights)
            m = {k: BETA1 * m[k] + (1 - BETA1) * g[k] for k in g}
            v = {k: BETA2 * v[k] + (1 - BETA2) * g[k] ** 2 for k in g}
            c1, c2 = 1 / (1 - BETA1 ** t), 1 / (1 - BETA2 ** t)
            new = {k: weights[k] - RATE * (m[k] * c1 / (jnp.sqrt(v[k] * c2) + EPSILON) + DECAY * weights[k]) for k in g}
            return loss, (new, m, v, t + 1)
        self.run = jax.jit(step, donate_argnums=0)

    take = lambda self, table, i: table[i]
    gelu = lambda self, x: self.jax.nn.gelu(x, approximate=True)
    heads = lambda self, x, n: x.reshape(*x.shape[:2], n, -1)
    joined = lambda self, x: x.reshape(*x.shape[:2], -1)
    attention = lambda self, q, k, v: self.jax.nn.dot_product_attention(q, k, v, is_causal=True)
    transposed = lambda self, x: x.T

    def layer_norm(self, x, w, b):
        centered = x - x.mean(-1, keepdims=True)
        return centered * self.jax.lax.rsqrt((centered ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

    def cross_entropy(self, x, y):
        return -self.jnp.take_along_axis(self.jax.nn.log_softmax(x), y[..., None], -1).mean()

    def step(self):
        loss, self.state = self.run(self.state)
        return float(loss)


def losses_of(peer, steps):
    """The losses, and the milliseconds per step of the second half."""
    losses = [peer.step() for _ in range(steps // 2)]
    begin = time.perf_counter()
    losses += [peer.step() for _ in range(steps - steps // 2)]
    return losses, (time.perf_counter() - begin) * 1e3 / (steps - steps // 2)


def dtc_losses(options, program, archive, folder, flags=()):
    log = pathlib.Path(folder) / "log.jsonl"
    command = [options.dtc, "run", program, "--input", archive, "--input", "m_*=zeros", "--input", "v_*=zeros", "--input", "step=const(1)",
               "--loop", options.steps, "--threads", options.threads, "-O2", "--log", log, "--print", "loss", *flags]
    log.unlink(missing_ok=True)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-800:])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line], lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dtc", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="a small model")
    options = parser.parse_args()
    small = dict(layers=2, hidden=64, heads=4, seq=32, batch=4, vocab=256)
    large = dict(layers=4, hidden=256, heads=4, seq=128, batch=8, vocab=1024)
    shape = small if options.quick else large
    vars(options).update(shape)
    sizes = [str(w) for k, v in shape.items() for w in (f"--{k}", v)]
    text = subprocess.run([options.dtc, "model", "gpt", "--mode", "train", "--optimizer", "adamw", "--learning-rate", str(RATE), *sizes],
                          capture_output=True, text=True, check=True).stdout
    values = inputs(options, text)
    found = {"machine": machine(), "shape": shape, "steps": options.steps, "losses": {}, "largest_difference": {}, "versions": {}}
    rounds = {}
    with tempfile.TemporaryDirectory() as folder:
        program, archive = pathlib.Path(folder) / "gpt.dt", pathlib.Path(folder) / "weights.npz"
        program.write_text(text)
        np.savez(archive, **values)
        makers = {"PyTorch": lambda: Torch(options, values, False), "torch.compile": lambda: Torch(options, values, True),
                  "JAX": lambda: Jax(options, values)}
        for _ in range(options.rounds):
            losses, lines = dtc_losses(options, program, archive, folder)
            half = lines[len(lines) // 2:]
            found["losses"]["dtc"] = losses
            rounds.setdefault("dtc", []).append(1e3 * sum(line["seconds"] for line in half) / len(half))
            for name, make in makers.items():
                peer = make()
                found["versions"][name] = peer.version
                own, ms = losses_of(peer, options.steps)
                found["losses"][name] = own
                found["largest_difference"][name] = max(abs(a - b) / abs(b) for a, b in zip(losses, own))
                rounds.setdefault(name, []).append(ms)
    found["ms_per_step"] = {name: min(ms) for name, ms in rounds.items()}
    found["times_faster_than"] = {name: interval([a / b for a, b in zip(rounds[name], rounds["dtc"])]) for name in rounds if name != "dtc"}
    show(found)
    pathlib.Path(options.out, "training.json").write_text(json.dumps(found, indent=1) + "\n")


def show(found):
    first, last = found["losses"]["dtc"][0], found["losses"]["dtc"][-1]
    print(f"GPT {found['shape']}, {found['steps']} steps of AdamW: loss {first:.4f} to {last:.4f}, {found['ms_per_step']['dtc']:.1f} ms per step")
    for name, (mean, low, high) in found["times_faster_than"].items():
        lost = "  dtc is slower" if high < 0.95 else ""
        print(f"    {name:14} losses within {found['largest_difference'][name]:.1e}; dtc is {mean:.2f} times as fast ({low:.2f}-{high:.2f}){lost}")
    if not all(math.isfinite(loss) for losses in found["losses"].values() for loss in losses):
        sys.exit("a loss is not finite")


if __name__ == "__main__":
    main()
