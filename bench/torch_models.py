"""Models of PyTorch compiled by dtc and by Inductor, and in eager mode (bench/torch_models.sh).

First call: wall time of the first call in a new process, with empty caches. Capture: the same with PyTorch's backend
aot_eager, which compiles nothing, and whose time every backend needs. Steady state: the median of calls that alternate
in one process. Forward (without gradients), and a training step: forward, loss and backward. A ratio above 1: dtc is
faster. Needs PyTorch, and the models' packages; a model that fails is reported and skipped."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = os.cpu_count()
CAPTURE = "aot_eager"
BACKENDS = ("eager", "inductor", "dtc")


def images(make, size=64, batch=8):
    def model():
        import torch

        x, y = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
        return make(), lambda model: torch.nn.functional.cross_entropy(model(x), y)

    return model


def text(cls, configuration, batch=4, length=64, **more):
    def model():
        import torch
        import transformers

        x = torch.randint(3, 1000, (batch, length))
        c = configuration(transformers)
        c.use_cache = False
        for name, value in vars(c).items():
            if ("dropout" in name or "pdrop" in name) and isinstance(value, float):
                setattr(c, name, 0.0)
        given = {"input_ids": x, "labels": x, **more}
        return getattr(transformers, cls)(c), lambda model: model(**given).loss

    return model


def torchvision(name, **options):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None, num_classes=10, **options)

    return make


def vit():
    import torchvision

    return torchvision.models.VisionTransformer(image_size=64, patch_size=8, num_layers=6, num_heads=4, hidden_dim=256, mlp_dim=1024, num_classes=10)


def timm(name, **options):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **options)

    return make


LLM = dict(num_hidden_layers=4, hidden_size=256, num_attention_heads=4, intermediate_size=768, vocab_size=1000, max_position_embeddings=128)
MODELS = {
    "resnet18": images(torchvision("resnet18")),
    "mobilenet_v3_small": images(torchvision("mobilenet_v3_small", dropout=0.0)),
    "vit": images(vit),
    "mixer_s32": images(timm("mixer_s32_224", img_size=64)),
    "convnextv2_atto": images(timm("convnextv2_atto"), batch=4),
    "gpt2": text("GPT2LMHeadModel", lambda t: t.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=1000, n_positions=128)),
    "bert": text("BertForMaskedLM", lambda t: t.BertConfig(**LLM)),
    "llama": text("LlamaForCausalLM", lambda t: t.LlamaConfig(num_key_value_heads=2, pad_token_id=0, **LLM)),
    "t5": text("T5ForConditionalGeneration", lambda t: t.T5Config(num_layers=3, d_model=256, d_kv=64, num_heads=4, d_ff=768, vocab_size=1000, dropout_rate=0.0, decoder_start_token_id=0)),
}


def prepare(name, training):
    """The model and a function that runs one step of a callable."""
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model, loss = MODELS[name]()
    model = model.train(training)

    def step(call):
        if not training:
            with torch.no_grad():
                return loss(call)
        for p in model.parameters():
            p.grad = None
        value = loss(call)
        value.backward()
        return value

    return model, step


def compiled(model, backend):
    import torch

    if backend == "eager":
        return model
    if backend == "dtc":
        import dtc.torch

        backend = dtc.torch.backend
    return torch.compile(model, backend=backend)


def first_call(name, training, backend):
    import torch  # not timed

    if backend == "dtc":
        import dtc.torch
    model, step = prepare(name, training)
    step(model)
    call = compiled(model, backend)
    begin = time.perf_counter()
    step(call)
    return time.perf_counter() - begin


def steady(name, training, seconds):
    model, step = prepare(name, training)
    calls = {backend: compiled(model, backend) for backend in BACKENDS}
    values = {backend: float(step(call)) for backend, call in calls.items()}
    for call in calls.values():
        step(call)
    times = {backend: [] for backend in BACKENDS}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times["dtc"]) < 9:
        for backend, call in calls.items():
            step(call)  # not counted: caches and worker threads are those of the other backend
            for _ in range(3):
                start = time.perf_counter()
                step(call)
                times[backend].append(time.perf_counter() - start)
    return {"ms": {b: 1000 * statistics.median(t) for b, t in times.items()}, "loss": values}


def child(what, name, training, backend, seconds, caches):
    """One measurement in a process of its own. `caches`: a folder."""
    environment = dict(os.environ, XDG_CACHE_HOME=caches, TORCHINDUCTOR_CACHE_DIR=caches + "/inductor")
    command = [sys.executable, __file__, "--measure", what, "--model", name, "--backend", backend, "--seconds", str(seconds), "--threads", str(THREADS)]
    done = subprocess.run(command + (["--training"] if training else []), env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: " + " ".join(done.stderr.strip().splitlines()[-1:])[:300]}
    return json.loads(done.stdout.splitlines()[-1])


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else float("nan")


def measure(o, name, training):
    row = {"model": name, "mode": "training" if training else "forward", "first": {}}
    values = {backend: [] for backend in (CAPTURE, *BACKENDS[1:])}
    for run in range(o.runs):
        with tempfile.TemporaryDirectory() as caches:
            for backend, times in values.items():
                times.append(child("first", name, training, backend, 0, caches))
            if run + 1 == o.runs:  # with the caches that the first calls filled
                row["steady"] = child("steady", name, training, "", o.seconds, caches)
    for backend, times in values.items():
        row["first"][backend] = next((t for t in times if isinstance(t, dict)), None) or min(times)
    return row


def ratio(row, what, peer):
    times = row["first"] if what == "first" else row["steady"].get("ms", {})
    ours, theirs = times.get("dtc"), times.get(peer)
    return theirs / ours if isinstance(ours, float) and isinstance(theirs, float) else None


def show(row):
    ms, first = row["steady"].get("ms", {}), row["first"]
    cell = lambda v, scale: f"{v * scale:9.2f}" if isinstance(v, float) else "        –"
    ratios = [ratio(row, "first", "inductor"), ratio(row, "steady", "inductor"), ratio(row, "steady", "eager")]
    print(f"{row['model']:20} {row['mode']:8} {cell(first.get(CAPTURE), 1)} {cell(first.get('inductor'), 1)} {cell(first.get('dtc'), 1)} "
          + " ".join(cell(ms.get(b), 1) for b in BACKENDS) + "  " + " ".join(f"{r:6.2f}" if r else "     –" for r in ratios), flush=True)
    for who, value in [*first.items(), ("steady", row["steady"])]:
        if isinstance(value, dict) and "failed" in value:
            print(f"  {who}: {value['failed']}", flush=True)


def write(o, result):
    (pathlib.Path(o.out) / "torch-models.json").write_text(json.dumps(result, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", choices=MODELS, help="only these")
    parser.add_argument("--runs", type=int, default=1, help="first calls per backend; the minimum is reported")
    parser.add_argument("--seconds", type=float, default=10, help="of steady state per model and mode")
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "results"))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of all backends")
    o = parser.parse_args()
    global THREADS
    THREADS = o.threads
    try:
        import torch
    except ImportError:
        sys.exit("this comparison needs PyTorch, which is not installed")
    if o.measure:
        name = o.model[0]
        print(json.dumps(first_call(name, o.training, o.backend) if o.measure == "first" else steady(name, o.training, o.seconds)))
        return
    from cpu import machine

    result = {"machine": machine(), "torch": torch.__version__, "threads": THREADS, "rows": []}
    print(f"{'':29} {'first call [s]':29} {'steady state [ms]':29}   dtc faster than")
    print(f"{'':20} {'':8} {'capture':>9} {'inductor':>9} {'dtc':>9} {'eager':>9} {'inductor':>9} {'dtc':>9}   first steady  eager")
    for name in o.model or MODELS:
        for training in (False, True):
            result["rows"].append(measure(o, name, training))
            show(result["rows"][-1])
            write(o, result)
    for what, peer in (("first", "inductor"), ("steady", "inductor"), ("steady", "eager")):
        ratios = [r for row in result["rows"] if (r := ratio(row, what, peer))]
        result[f"{what}_{peer}"] = mean(ratios)
        print(f"geometric mean, {'first call' if what == 'first' else 'steady state'}, {peer} / dtc: {mean(ratios):.2f} "
              f"({sum(r < 1 for r in ratios)} of {len(ratios)} lost)")
    write(o, result)


if __name__ == "__main__":
    main()
