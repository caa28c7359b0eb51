"""ONNX models run by dtc and by ONNX Runtime (bench/onnx_models.sh).

The models are written by torch.onnx with random weights, or node by node. First call: wall time to load, to compile and
to run once in a new process, with empty caches; imports of packages are not timed. Steady state: the median of calls
that alternate in one process, after the results of both are compared. A ratio above 1: dtc is faster. A model that cannot
be made or run is reported and skipped."""

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

import torch_models
from torch_models import mean

BACKENDS = ("onnxruntime", "dtc")
TOLERANCE = {"quantized": 0.05}  # a rounding that differs by one step, relative to the largest value
OPSET = 20


def image(make):
    return lambda torch: (make().eval(), {"x": torch.randn(8, 3, 64, 64)})


def mlp(torch):
    n = torch.nn
    layers = [n.Linear(512, 2048), n.GELU(), n.Linear(2048, 2048), n.GELU(), n.Linear(2048, 512)]
    return n.Sequential(*layers).eval(), {"x": torch.randn(64, 512)}


def first_result(torch, model):
    """The model with its first result only: not its caches."""

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.eval()

        def forward(self, tokens):
            return self.model(tokens, return_dict=False)[0]

    return First()


def text(cls, configuration):
    def make(torch):
        import transformers

        c = configuration(transformers)
        c.use_cache = False
        model = getattr(transformers, cls)(c)
        return first_result(torch, model), {"tokens": torch.randint(3, 1000, (4, 64))}

    return make


def weights(random, *shape):
    return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


def graph(nodes, x, y, constants):
    """A model with the argument x, (name, shape), and the result y; `constants`: arrays by name."""
    from onnx import TensorProto, helper, numpy_helper

    values = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    inputs, outputs = [[helper.make_tensor_value_info(*v[:1], TensorProto.FLOAT, v[1])] for v in (x, y)]
    made = helper.make_graph([helper.make_node(op, i, o, **more) for op, i, o, more in nodes], "g", inputs, outputs, values)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def quantized(random, width=1024, batch=64, layers=4):
    """Layers of dynamic quantization: u8 activations, i8 weights, i32 sums, as the quantization tools write them."""
    nodes, constants, value = [], {}, "x"
    for i in range(layers):
        w = weights(random, width, width)
        scale = np.float32(abs(w).max() / 127)
        constants |= {f"w{i}": np.rint(w / scale).astype(np.int8), f"ws{i}": scale, f"wz{i}": np.int8(0),
                      f"b{i}": weights(random, width)}
        nodes += [("DynamicQuantizeLinear", [value], [f"q{i}", f"s{i}", f"z{i}"], {}),
                  ("MatMulInteger", [f"q{i}", f"w{i}", f"z{i}", f"wz{i}"], [f"p{i}"], {}),
                  ("Cast", [f"p{i}"], [f"f{i}"], {"to": 1}), ("Mul", [f"s{i}", f"ws{i}"], [f"m{i}"], {}),
                  ("Mul", [f"f{i}", f"m{i}"], [f"d{i}"], {}), ("Add", [f"d{i}", f"b{i}"], [f"a{i}"], {}),
                  ("Relu", [f"a{i}"], [f"y{i}"], {})]
        value = f"y{i}"
    return graph(nodes, ("x", [batch, width]), (value, [batch, width]), constants)


def lstm(random, width=256, batch=16, length=64, layers=2):
    nodes, value, axis = [], "x", {"axes": np.array([1], np.int64)}
    constants = dict(axis)
    for i in range(layers):
        constants |= {f"w{i}": weights(random, 1, 4 * width, width), f"r{i}": weights(random, 1, 4 * width, width),
                      f"b{i}": weights(random, 1, 8 * width)}
        nodes += [("LSTM", [value, f"w{i}", f"r{i}", f"b{i}"], [f"h{i}"], {"hidden_size": width}),
                  ("Squeeze", [f"h{i}", "axes"], [f"y{i}"], {})]
        value = f"y{i}"
    return graph(nodes, ("x", [length, batch, width]), (value, [length, batch, width]), constants)


EXPORTED = {
    "mlp": mlp,
    "resnet18": image(torch_models.torchvision("resnet18")),
    "vit": image(torch_models.vit),
    "bert": text("BertModel", lambda t: t.BertConfig(**torch_models.LLM)),
    "gpt2": text("GPT2LMHeadModel", lambda t: t.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=1000, n_positions=128)),
}
WRITTEN = {"quantized": (quantized, (64, 1024)), "lstm": (lstm, (64, 16, 256))}


def make(name, folder):
    """Writes NAME.onnx, and NAME.npz with its arguments."""
    file = f"{folder}/{name}.onnx"
    if name in WRITTEN:
        import onnx

        write_model, shape = WRITTEN[name]
        random = np.random.default_rng(1)
        onnx.save(write_model(random), file)
        given = {"x": random.standard_normal(shape).astype(np.float32)}
    else:
        import torch

        torch.manual_seed(0)
        model, tensors = EXPORTED[name](torch)
        with torch.no_grad():
            for parameter in model.parameters():
                if not parameter.any():  # of zeros, as some heads are: the result would be constant
                    parameter.normal_(std=0.05)
            torch.onnx.export(model, tuple(tensors.values()), file, input_names=list(tensors), output_names=["y"],
                              opset_version=OPSET, verbose=False)
        given = {n: t.numpy() for n, t in tensors.items()}
    np.savez(f"{folder}/{name}.npz", **given)


def make_all(names, folder):
    failed = {}
    for name in names:
        try:
            make(name, folder)
        except Exception as why:  # the other models are measured
            failed[name] = f"{type(why).__name__}: {why}"[:300]
    return failed


def given(name, folder):
    return dict(np.load(f"{folder}/{name}.npz"))


def prepared(backend, name, folder, threads):
    """A function that runs the model once and returns its result."""
    file, arrays = f"{folder}/{name}.onnx", given(name, folder)
    if backend == "dtc":
        import dtc

        executable = dtc.compile(file, threads=threads)
        return lambda: executable(**arrays)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["y"] if name in EXPORTED else None, arrays)[0]


def first_call(backend, name, folder, threads):
    import onnxruntime  # not timed

    if backend == "dtc":
        import dtc
    begin = time.perf_counter()
    prepared(backend, name, folder, threads)()
    return time.perf_counter() - begin


def steady(name, folder, threads, seconds):
    calls = {backend: prepared(backend, name, folder, threads) for backend in BACKENDS}
    theirs, ours = (np.array(calls[b](), np.float64) for b in BACKENDS)
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not difference < TOLERANCE.get(name, 1e-3):
        return {"failed": f"the results differ: {difference:.2g} of the largest value"}
    times = {backend: [] for backend in BACKENDS}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times["dtc"]) < 15:
        for backend, call in calls.items():
            # ONNX Runtime's workers spin for some 50 ms after a call and take the cores of the other backend.
            time.sleep(0.1)
            call()  # not counted: caches are those of the other backend
            for _ in range(5):
                start = time.perf_counter()
                call()
                times[backend].append(time.perf_counter() - start)
    return {"ms": {b: 1000 * statistics.median(t) for b, t in times.items()}, "difference": difference}


def child(o, what, folder, names, threads=1, backend="", caches=None):
    """One measurement in a process of its own. `caches`: a folder."""
    environment = dict(os.environ, XDG_CACHE_HOME=caches or folder)
    command = [sys.executable, __file__, "--measure", what, "--folder", folder, "--backend", backend,
               "--seconds", str(o.seconds), "--threads", str(threads)]
    for name in names:
        command += ["--model", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: " + " ".join(done.stderr.strip().splitlines()[-1:])[:300]}
    return json.loads(done.stdout.splitlines()[-1])


def measure(o, name, threads, folder):
    row = {"model": name, "threads": threads, "first": {}}
    values = {backend: [] for backend in BACKENDS}
    for run in range(o.runs):
        with tempfile.TemporaryDirectory() as caches:
            for backend, times in values.items():
                times.append(child(o, "first", folder, [name], threads, backend, caches))
            if run + 1 == o.runs:  # with the cache that the first calls filled
                row["steady"] = child(o, "steady", folder, [name], threads, "", caches)
    for backend, times in values.items():
        row["first"][backend] = next((t for t in times if isinstance(t, dict)), None) or min(times)
    return row


def ratio(row, what):
    times = row["first"] if what == "first" else row["steady"].get("ms", {})
    ours, theirs = times.get("dtc"), times.get("onnxruntime")
    return theirs / ours if isinstance(ours, float) and isinstance(theirs, float) else None


def show(row):
    def cell(value, scale):
        return f"{value * scale:11.2f}" if isinstance(value, float) else "          –"

    first, ms = row["first"], row["steady"].get("ms", {})
    ratios = [ratio(row, "first"), ratio(row, "steady")]
    print(f"{row['model']:10} {row['threads']:7} " + " ".join(cell(first.get(b), 1000) for b in BACKENDS) + " "
          + " ".join(cell(ms.get(b), 1) for b in BACKENDS) + "  " + " ".join(f"{r:6.2f}" if r else "     –" for r in ratios)
          + ("  dtc is slower" if ratios[1] and ratios[1] < 0.95 else ""), flush=True)
    for who, value in [*first.items(), ("steady", row["steady"])]:
        if isinstance(value, dict) and "failed" in value:
            print(f"  {who}: {value['failed']}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for hidden in ("--measure", "--backend", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", choices=[*EXPORTED, *WRITTEN], help="only these")
    parser.add_argument("--runs", type=int, default=1, help="first calls per backend; the minimum is reported")
    parser.add_argument("--seconds", type=float, default=3, help="of steady state per model and number of threads")
    parser.add_argument("--threads", type=int, action="append", help="of both backends (default: 1, and one per core)")
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "results"))
    return parser.parse_args()


def answer(o):
    """A child process: the measurement as JSON."""
    threads = (o.threads or [1])[0]
    if o.measure == "make":
        return make_all(o.model, o.folder)
    if o.measure == "first":
        return first_call(o.backend, o.model[0], o.folder, threads)
    return steady(o.model[0], o.folder, threads, o.seconds)


def main():
    o = arguments()
    try:
        import onnxruntime
    except ImportError:
        sys.exit("this comparison needs ONNX Runtime, which is not installed")
    if o.measure:
        print(json.dumps(answer(o)))
        return
    from cpu import machine

    names = o.model or [*EXPORTED, *WRITTEN]
    result = {"machine": machine(), "onnxruntime": onnxruntime.__version__, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        failed = child(o, "make", folder, names)
        for name, why in failed.items():
            print(f"{name} is not measured: {why}", flush=True)
        result["not_measured"] = failed
        print(f"{'':18} {'first call [ms]':23} {'steady state [ms]':23}   dtc faster than")
        print(f"{'':10} threads " + " ".join(f"{b:>11}" for b in 2 * BACKENDS) + "   first steady")
        for threads in o.threads or sorted({1, os.cpu_count()}):
            for name in names:
                if name not in failed and "failed" not in failed:
                    result["rows"].append(measure(o, name, threads, folder))
                    show(result["rows"][-1])
    for what in ("first", "steady"):
        ratios = [r for row in result["rows"] if (r := ratio(row, what))]
        result[what] = mean(ratios)
        print(f"geometric mean, {'first call' if what == 'first' else 'steady state'}, onnxruntime / dtc: "
              f"{mean(ratios):.2f} ({sum(r < 1 for r in ratios)} of {len(ratios)} lost)")
    (pathlib.Path(o.out) / "onnx-models.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
