"""Prints a training step of a small GPT as JAX lowers it: the loss and its gradients, StableHLO text, for `dtc import`.

  python3 bench/jax/gpt.py > gpt.mlir                  2 layers, width 32, 4 heads, 16 positions, 50 tokens, batch 2
  python3 bench/jax/gpt.py 12 768 12 1024 50257 8      layers width heads positions tokens batch; `scan`: layers in one loop"""

import sys

import jax
import jax.numpy as jnp
from jax import lax


def norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def attention(x, w, heads):
    batch, seq, width = x.shape
    q, k, v = jnp.split(x @ w["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(batch, seq, heads, width // heads) for t in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -1e9)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return y.reshape(batch, seq, width) @ w["out"]


def block(x, w, heads):
    x = x + attention(norm(x, w["scale1"], w["shift1"]), w, heads)
    return x + jax.nn.gelu(norm(x, w["scale2"], w["shift2"]) @ w["up"]) @ w["down"]


def loss(params, tokens, heads, scan):
    x = params["tokens"][tokens[:, :-1]] + params["positions"][: tokens.shape[1] - 1]
    if scan:
        x, _ = lax.scan(lambda x, w: (block(x, w, heads), None), x, params["blocks"])
    else:
        for i in range(params["blocks"]["up"].shape[0]):
            x = block(x, jax.tree.map(lambda p, i=i: p[i], params["blocks"]), heads)
    logits = jax.nn.log_softmax(norm(x, params["scale"], params["shift"]) @ params["tokens"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1).mean()


def main():
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    layers, width, heads, seq, vocab, batch = (numbers + [2, 32, 4, 16, 50, 2][len(numbers):])[:6]
    scan = "scan" in sys.argv

    def of(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    blocks = {"qkv": of(layers, width, 3 * width), "out": of(layers, width, width), "up": of(layers, width, 4 * width),
              "down": of(layers, 4 * width, width), "scale1": of(layers, width), "shift1": of(layers, width),
              "scale2": of(layers, width), "shift2": of(layers, width)}
    params = {"tokens": of(vocab, width), "positions": of(seq, width), "scale": of(width), "shift": of(width),
              "blocks": blocks}
    tokens = jax.ShapeDtypeStruct((batch, seq + 1), jnp.int32)
    lowered = jax.jit(jax.value_and_grad(lambda p, t: loss(p, t, heads, scan))).lower(params, tokens)
    print(lowered.as_text(debug_info="names" in sys.argv))


main()
