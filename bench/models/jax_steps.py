"""Training steps in JAX, as bench/blocks.py and bench/sharded.py lower them for dtc and run them as a peer: NAME -> (parameters,
data, loss). Sizes are bench/models/sizes.py's; parameters and data are small random arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from models.sizes import SIZES


def normal(random, *shape):
    return (random.standard_normal(shape) * 0.05).astype(np.float32)


def layer_norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def rms_norm(x, scale):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def attend(q, k, v, causal):
    """[batch, positions, heads, width of a head]"""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1).mean()


def encoder_block(x, w, heads, causal):
    batch, positions, width = x.shape
    split = jnp.split(layer_norm(x, w["scale1"], w["shift1"]) @ w["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(batch, positions, heads, width // heads) for t in split)
    x = x + attend(q, k, v, causal).reshape(batch, positions, width) @ w["out"]
    return x + jax.nn.gelu(layer_norm(x, w["scale2"], w["shift2"]) @ w["up"]) @ w["down"]


def encoder_parameters(random, s):
    width = s["width"]
    return {"qkv": normal(random, width, 3 * width), "out": normal(random, width, width),
            "up": normal(random, width, 4 * width), "down": normal(random, 4 * width, width),
            **{name: np.full(width, value, np.float32)
               for name, value in (("scale1", 1), ("shift1", 0), ("scale2", 1), ("shift2", 0))}}


def gpt(random, s):
    width, vocabulary = s["width"], s["vocabulary"]
    parameters = {"tokens": normal(random, vocabulary, width), "positions": normal(random, s["positions"], width),
                  "scale": np.ones(width, np.float32), "shift": np.zeros(width, np.float32),
                  "blocks": [encoder_parameters(random, s) for _ in range(s["layers"])]}
    data = [random.integers(0, vocabulary, (s["batch"], s["positions"] + 1)).astype(np.int32)]

    def loss(p, tokens):
        x = p["tokens"][tokens[:, :-1]] + p["positions"]
        for w in p["blocks"]:
            x = encoder_block(x, w, s["heads"], True)
        return cross_entropy(layer_norm(x, p["scale"], p["shift"]) @ p["tokens"].T, tokens[:, 1:])
    return parameters, data, loss


def rotated(x):
    """Rotary positions of [batch, positions, heads, width of a head]."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(half) / half)
    sine, cosine = jnp.sin(angle)[:, None, :], jnp.cos(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def llama(random, s):
    width, heads, groups, vocabulary = s["width"], s["heads"], s["groups"], s["vocabulary"]
    each, hidden = width // heads, s["hidden"]
    parameters = {"tokens": normal(random, vocabulary, width), "head": normal(random, width, vocabulary),
                  "scale": np.ones(width, np.float32),
                  "blocks": [{"q": normal(random, width, width), "k": normal(random, width, groups * each),
                              "v": normal(random, width, groups * each), "out": normal(random, width, width),
                              "gate": normal(random, width, hidden), "up": normal(random, width, hidden),
                              "down": normal(random, hidden, width), "scale1": np.ones(width, np.float32),
                              "scale2": np.ones(width, np.float32)} for _ in range(s["layers"])]}
    data = [random.integers(0, vocabulary, (s["batch"], s["positions"] + 1)).astype(np.int32)]

    def block(x, w):
        batch, positions, _ = x.shape
        h = rms_norm(x, w["scale1"])
        q = rotated((h @ w["q"]).reshape(batch, positions, heads, each))
        k = rotated((h @ w["k"]).reshape(batch, positions, groups, each))
        v = (h @ w["v"]).reshape(batch, positions, groups, each)
        k, v = (jnp.repeat(t, heads // groups, axis=2) for t in (k, v))
        x = x + attend(q, k, v, True).reshape(batch, positions, width) @ w["out"]
        h = rms_norm(x, w["scale2"])
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]

    def loss(p, tokens):
        x = p["tokens"][tokens[:, :-1]]
        for w in p["blocks"]:
            x = block(x, w)
        return cross_entropy(rms_norm(x, p["scale"]) @ p["head"], tokens[:, 1:])
    return parameters, data, loss


def vit(random, s):
    width, patch, image = s["width"], s["patch"], s["image"]
    count = (image // patch) ** 2
    parameters = {"patches": normal(random, patch * patch * 3, width), "positions": normal(random, count, width),
                  "head": normal(random, width, s["classes"]), "scale": np.ones(width, np.float32),
                  "shift": np.zeros(width, np.float32), "blocks": [encoder_parameters(random, s) for _ in range(s["layers"])]}
    data = [normal(random, s["batch"], image, image, 3), random.integers(0, s["classes"], s["batch"]).astype(np.int32)]

    def loss(p, images, labels):
        side = image // patch
        x = images.reshape(-1, side, patch, side, patch, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, count, patch * patch * 3)
        x = x @ p["patches"] + p["positions"]
        for w in p["blocks"]:
            x = encoder_block(x, w, s["heads"], False)
        return cross_entropy(layer_norm(x, p["scale"], p["shift"]).mean(1) @ p["head"], labels)
    return parameters, data, loss


def resnet(random, s):
    """Residual blocks of two 3x3 convolutions with batch statistics, the width doubled where the image is halved."""
    widths = [s["width"] << stage for stage in range(s["stages"])]
    parameters = {"stem": normal(random, 3, 3, 3, widths[0]), "head": normal(random, widths[-1], s["classes"]), "blocks": []}
    for stage, width in enumerate(widths):
        before = widths[max(stage - 1, 0)]
        parameters["blocks"].append({"first": normal(random, 3, 3, before, width), "second": normal(random, 3, 3, width, width),
                                     "beside": normal(random, 1, 1, before, width), "scale1": np.ones(width, np.float32),
                                     "shift1": np.zeros(width, np.float32), "scale2": np.ones(width, np.float32),
                                     "shift2": np.zeros(width, np.float32)})
    data = [normal(random, s["batch"], s["image"], s["image"], 3), random.integers(0, s["classes"], s["batch"]).astype(np.int32)]

    def convolve(x, w, stride=1):
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def batch_norm(x, scale, shift):
        mean = x.mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5) * scale + shift

    def loss(p, images, labels):
        x = convolve(images, p["stem"])
        for stage, w in enumerate(p["blocks"]):
            stride = 2 if stage else 1
            y = jax.nn.relu(batch_norm(convolve(x, w["first"], stride), w["scale1"], w["shift1"]))
            y = batch_norm(convolve(y, w["second"]), w["scale2"], w["shift2"])
            x = jax.nn.relu(y + convolve(x, w["beside"], stride))
        return cross_entropy(x.mean((1, 2)) @ p["head"], labels)
    return parameters, data, loss


MODELS = {"gpt": gpt, "llama": llama, "vit": vit, "resnet": resnet}


def step(name, quick):
    """(parameters, data, the function that gives the loss and its gradients)"""
    parameters, data, loss = MODELS[name](np.random.default_rng(1), SIZES[name][quick])
    return parameters, data, jax.value_and_grad(loss)
