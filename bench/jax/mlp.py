"""Prints a training step of an MLP as JAX lowers it: StableHLO text, for `dtc import`.

  python3 bench/jax/mlp.py > mlp.mlir            sizes as below
  python3 bench/jax/mlp.py 64 128 16 names       batch, width, classes; with the places of the source (debug info)"""

import sys

import jax
import jax.numpy as jnp


def loss(params, x, labels):
    h = x
    for layer in params[:-1]:
        h = jax.nn.gelu(h @ layer["w"] + layer["b"])
    logits = h @ params[-1]["w"] + params[-1]["b"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, logits.shape[-1]), axis=-1))


def step(params, x, labels):
    value, grads = jax.value_and_grad(loss)(params, x, labels)
    return {"loss": value, "params": jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)}


def main():
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    batch, width, classes = (numbers + [8, 32, 10][len(numbers):])[:3]
    sizes = [width, 2 * width, classes]
    params = [{"w": jax.ShapeDtypeStruct((a, b), jnp.float32), "b": jax.ShapeDtypeStruct((b,), jnp.float32)}
              for a, b in zip(sizes, sizes[1:])]
    x = jax.ShapeDtypeStruct((batch, width), jnp.float32)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
    lowered = jax.jit(step, donate_argnums=0).lower(params, x, labels)
    print(lowered.as_text(debug_info="names" in sys.argv))


main()
