"""Programs of JAX on dtc's plugin and on JAX's own CPU backend (bench/jax_models.sh).

Each backend is a process of its own, with the same program and arguments. First call: wall time to trace and lower the
function, to compile it and to run it once, with empty caches; the backend is initialized before. Lower: the part of it
that is JAX's own with any backend. Then the results are compared. Steady state: the median of calls; the two processes
take turns. Both are limited to the same cores. A ratio above 1: dtc is faster. A program that fails is reported and
skipped."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from torch_models import mean

BACKENDS = ("cpu", "dtc")
TOLERANCE = 2e-3
ENCODER = {"layers": 4, "width": 256, "heads": 4, "batch": 4}


def normal(random, *shape):
    return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


def mlp(random):
    """A training step: the updated parameters and the loss."""
    import jax
    import jax.numpy as jnp

    parameters = [normal(random, 512, 2048), normal(random, 2048, 2048), normal(random, 2048, 512)]
    x, y = normal(random, 64, 512), normal(random, 64, 512)

    def loss(parameters, x, y):
        for w in parameters[:-1]:
            x = jax.nn.gelu(x @ w)
        return jnp.mean((x @ parameters[-1] - y) ** 2)

    def step(parameters, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return value, [p - 0.1 * g for p, g in zip(parameters, gradients)]

    return step, (parameters, x, y)


def step_of(name, sizes, training=True):
    def make(random):
        import jax

        from models import jax_steps

        parameters, data, loss = jax_steps.MODELS[name](random, sizes)
        return (jax.value_and_grad(loss) if training else loss), (parameters, *data)

    return make


def rnn(random):
    """Gradients of a recurrent net, by lax.scan over 64 positions."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    width = 256
    parameters = {"w": normal(random, width, width), "r": normal(random, width, width), "b": normal(random, width)}
    x = normal(random, 64, 16, width)

    def loss(p, x):
        def cell(h, at):
            h = jnp.tanh(at @ p["w"] + h @ p["r"] + p["b"])
            return h, h

        return jnp.mean(lax.scan(cell, jnp.zeros((16, width)), x)[1] ** 2)

    return jax.value_and_grad(loss), (parameters, x)


def scalar_loop(random):
    """A million dependent steps on one number."""
    from jax import lax

    def run(x, c):
        return lax.fori_loop(0, 1_000_000, lambda i, x: x * c + 0.25, x)

    return run, (np.float32(1), np.float32(0.75))


MODELS = {
    "mlp": mlp,
    "gpt": step_of("gpt", {**ENCODER, "positions": 64, "vocabulary": 1000}),
    "conv": step_of("resnet", {"stages": 3, "width": 32, "image": 32, "classes": 10, "batch": 8}),
    "vit": step_of("vit", {**ENCODER, "image": 64, "patch": 8, "classes": 10}, training=False),
    "rnn": rnn,
    "scalar-loop": scalar_loop,
}


def serve(o):
    """A child process: the first call; then a line of milliseconds for each line on standard input."""
    cores = sorted(os.sched_getaffinity(0))[: o.threads]
    os.sched_setaffinity(0, cores)
    os.environ.update(JAX_PLATFORMS=o.backend, DTC_NUM_THREADS=str(len(cores)))
    import jax

    if o.backend == "dtc":
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python/dtc"))
        import jax_plugin

        jax_plugin.initialize()
    function, arguments = MODELS[o.model[0]](np.random.default_rng(1))
    arguments = jax.block_until_ready(jax.device_put(arguments))
    begin = time.perf_counter()
    lowered = jax.jit(function).lower(*arguments)
    lower = time.perf_counter() - begin
    call = lowered.compile()
    result = jax.block_until_ready(call(*arguments))
    print(json.dumps({"first": time.perf_counter() - begin, "lower": lower}), flush=True)
    np.savez(o.results, *[np.asarray(leaf) for leaf in jax.tree.leaves(result)])
    print("", flush=True)

    def timed():
        start = time.perf_counter()
        jax.block_until_ready(call(*arguments))
        return 1000 * (time.perf_counter() - start)

    for line in sys.stdin:
        timed()  # not counted: the caches are those of the other process
        print(json.dumps([timed() for _ in range(int(line))]), flush=True)


class Child:
    def __init__(self, o, name, threads, backend, folder):
        self.results = f"{folder}/{name}-{backend}.npz"
        self.errors = open(f"{folder}/{name}-{backend}.txt", "w+")
        command = [sys.executable, __file__, "--serve", "--model", name, "--backend", backend, "--threads", str(threads),
                   "--results", self.results]
        environment = dict(os.environ, XDG_CACHE_HOME=folder, JAX_ENABLE_COMPILATION_CACHE="false")
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        line = self.process.stdout.readline()
        times = json.loads(line) if line else {}
        self.first, self.lower = times.get("first"), times.get("lower")
        self.process.stdout.readline()  # the results are written

    def milliseconds(self, repeat):
        self.process.stdin.write(f"{repeat}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """The last line of its errors, if it failed."""
        self.process.stdin.close()
        self.process.wait()
        self.errors.seek(0)
        return " ".join(self.errors.read().strip().splitlines()[-1:])[:300]


def difference(children):
    """The largest difference of the results, relative to the largest value of each."""
    theirs, ours = (np.load(c.results) for c in children)
    worst = 0.0
    for name in theirs.files:
        a, b = np.asarray(theirs[name], np.float64), np.asarray(ours[name], np.float64)
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)))
    return worst


def alternate(o, children):
    times = {b: [] for b in BACKENDS}
    begin = time.perf_counter()
    while time.perf_counter() - begin < o.seconds or len(times["dtc"]) < 15:
        for backend, child in zip(BACKENDS, children):
            times[backend] += child.milliseconds(5)
    return {b: statistics.median(t) for b, t in times.items()}


def measure(o, name, threads):
    row = {"model": name, "threads": threads}
    with tempfile.TemporaryDirectory() as folder:
        children = [Child(o, name, threads, backend, folder) for backend in BACKENDS]
        row["first_s"] = {b: c.first for b, c in zip(BACKENDS, children)}
        row["lower_s"] = {b: c.lower for b, c in zip(BACKENDS, children)}
        if all(c.first for c in children):
            row["difference"] = difference(children)
            if row["difference"] < TOLERANCE:
                row["ms"] = alternate(o, children)
            else:
                row["failed"] = f"the results differ: {row['difference']:.2g} of the largest value"
        errors = {b: c.close() for b, c in zip(BACKENDS, children)}
        row |= {} if all(c.first for c in children) else {"failed": f"{errors}"}
    return row


def ratio(row, what):
    times = row.get(what, {})
    return times["cpu"] / times["dtc"] if times.get("cpu") and times.get("dtc") else None


def show(row):
    def cell(times, backend):
        return f"{times[backend]:9.2f}" if times.get(backend) else "        –"

    ratios = [ratio(row, "first_s"), ratio(row, "ms")]
    cells = [cell(row.get("lower_s", {}), "dtc")] + [cell(row.get(w, {}), b) for w in ("first_s", "ms") for b in BACKENDS]
    print(f"{row['model']:12} {row['threads']:7} " + " ".join(cells)
          + "  " + " ".join(f"{r:6.2f}" if r else "     –" for r in ratios)
          + ("  dtc is slower" if ratios[1] and ratios[1] < 0.95 else ""), flush=True)
    if "failed" in row:
        print(f"  {row['failed']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", choices=MODELS, help="only these")
    parser.add_argument("--seconds", type=float, default=4, help="of steady state per program and number of threads")
    parser.add_argument("--threads", type=int, help="of both backends (default: 1, and one per core)")
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "results"))
    o = parser.parse_args()
    if o.serve:
        serve(o)
        return
    try:
        import jax
    except ImportError:
        sys.exit("this comparison needs JAX, which is not installed")
    from cpu import machine

    result = {"machine": machine(), "jax": jax.__version__, "rows": []}
    print(f"{'':20} {'first call [s]':29} {'steady state [ms]':19}   dtc faster than")
    print(f"{'':12} threads {'lower':>9} " + " ".join(f"{b:>9}" for b in 2 * BACKENDS) + "   first steady")
    for threads in [o.threads] if o.threads else sorted({1, os.cpu_count()}):
        for name in o.model or MODELS:
            result["rows"].append(measure(o, name, threads))
            show(result["rows"][-1])
    for what, words in (("first_s", "first call"), ("ms", "steady state")):
        ratios = [r for row in result["rows"] if (r := ratio(row, what))]
        result[what] = mean(ratios)
        print(f"geometric mean, {words}, JAX / dtc: {mean(ratios):.2f} ({sum(r < 1 for r in ratios)} of {len(ratios)} lost)")
    (pathlib.Path(o.out) / "jax-models.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
