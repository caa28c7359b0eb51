"""Training steps of complete models, compared with peers: bench/blocks.sh on one device, bench/sharded.sh on 8 logical devices (dp=2, tp=4).

The step is written in JAX (bench/models), lowered to StableHLO and imported, so without JAX there is nothing to run. dtc and the
peers take turns for several rounds; ratios are of the rounds' best runs, with a 95 % interval. A peer that is not installed, or that
does not support the step, is reported and excluded. ONNX Runtime runs no training step."""

import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from cpu import interval, machine

SUITES = {"blocks": (("gpt", "llama", "vit", "resnet"), ("jax", "torch", "torch.compile")),
          "sharded": (("gpt",), ("jax-8", "dtensor"))}
HERE = pathlib.Path(__file__).parent


class Peer:
    def __init__(self, options, kind, model):
        self.name, self.absent = kind, None
        command = [options.peers, str(HERE / "step_peers.py"), kind, model, options.size, str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        first = self.process.stdout.readline()
        self.version = json.loads(first)["version"] if first else None
        if not self.version:
            self.absent = "it does not start"

    def best(self, repeat):
        """The minimum milliseconds of `repeat` runs; None where the peer does not support the step."""
        if self.absent:
            return None
        try:
            self.process.stdin.write(json.dumps({"repeat": repeat}) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"absent": "it ended"}')
        except BrokenPipeError:
            answer = {"absent": "it ended"}
        self.absent = answer.get("absent")
        return min(answer["ms"]) if "ms" in answer else None

    def close(self):
        self.process.stdin.close()  # it ends by itself, with its child processes
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def lowered(options, model, folder, kind):
    file = pathlib.Path(folder) / f"{model}-{kind}.mlir"
    command = [options.peers, str(HERE / "step_peers.py"), kind, model, options.size, str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{model}: JAX does not lower it: {done.stderr[-400:]}")
    file.write_text(done.stdout)
    return file


def dtc_run(options, file):
    """Milliseconds of each run, and of its steps by kind."""
    command = [options.dtc, "run", file, f"-O{options.level}", "--threads", options.threads, "--input", "*=uniform(1,0.01,0.1)",
               "--stats", "--json", "--warmup", "1", "--repeat", options.repeat]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{file.name}: {done.stderr[-400:]}")
    stats = json.loads(done.stdout)["stats"]
    kinds = {}
    for s in stats["steps"]:
        kinds[s["kind"]] = kinds.get(s["kind"], 0) + s["ns"] / 1e6 / len(stats["run_ms"])
    return stats["run_ms"], kinds


def measure(options, model, folder):
    sharded = options.suite == "sharded"
    file = lowered(options, model, folder, "lower-8" if sharded else "lower")
    alone = lowered(options, model, folder, "lower") if sharded else None
    peers = [Peer(options, kind, model) for kind in options.kinds]
    rounds = []
    for _ in range(options.rounds):
        times, kinds = dtc_run(options, file)
        one = {"dtc": min(times), "dtc_kinds_ms": kinds}
        if alone:
            one["dtc on one device"] = min(dtc_run(options, alone)[0])
        for p in peers:
            if (best := p.best(options.repeat)) is not None:
                one[p.name] = best
        rounds.append(one)
    found = {"model": model, "size": options.size, "ms": min(r["dtc"] for r in rounds),
             "median_ms": statistics.median(r["dtc"] for r in rounds), "rounds": rounds, "times_faster_than": {},
             "absent": {p.name: p.absent for p in peers if p.absent}, "versions": {p.name: p.version for p in peers if p.version}}
    for name in [p.name for p in peers if not p.absent] + (["dtc on one device"] if alone else []):
        found["times_faster_than"][name] = interval([r[name] / r["dtc"] for r in rounds])
    for p in peers:
        p.close()
    return found


def show(found):
    kinds = found["rounds"][-1]["dtc_kinds_ms"]
    print(f"{found['model']:8} {found['size']:6} dtc {found['ms']:9.1f} ms ({', '.join(f'{k} {v:.0f}' for k, v in kinds.items())})")
    for name, (mean, low, high) in found["times_faster_than"].items():
        lost = "  dtc is slower" if name != "dtc on one device" and high < 0.95 else ""
        print(f"    {mean:6.2f} times as fast as {name} ({low:.2f}-{high:.2f}){lost}")
    for name, why in found["absent"].items():
        print(f"    {name} is absent: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", help="models, separated by commas")
    parser.add_argument("--level", default="2", help="-O level")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="runs per round; the best one counts")
    parser.add_argument("--peers", help="the python with the peers (build/peers)")
    parser.add_argument("--without", default="", help="peers to exclude, separated by commas")
    parser.add_argument("--quick", action="store_true", help="small models")
    options = parser.parse_args()
    models, kinds = SUITES[options.suite]
    options.dtc, options.size = pathlib.Path(options.build) / "bin/dtc", "quick" if options.quick else "full"
    options.kinds = [k for k in kinds if k not in options.without.split(",")]
    options.peers = options.peers or str(pathlib.Path(options.build).parent / "peers/bin/python")
    if not shutil.which(options.peers):
        sys.exit(f"the steps are written in JAX: bench/setup-peers.sh installs it ({options.peers} does not exist)")
    chosen = options.models.split(",") if options.models else list(models)
    if unknown := [m for m in chosen if m not in models]:
        parser.error(f"there is no model {unknown[0]} in {options.suite}; expected {', '.join(models)}")
    about, results = machine(), []
    with tempfile.TemporaryDirectory() as folder:
        for model in chosen:
            results.append(measure(options, model, folder))
            show(results[-1])
    for name in options.kinds:
        ratios = [r["times_faster_than"][name][0] for r in results if name in r["times_faster_than"]]
        if ratios:
            print(f"geometric mean over {len(ratios)} steps: {math.exp(statistics.fmean(map(math.log, ratios))):.2f} times as fast as {name}")
    if options.suite == "blocks":
        print("peer onnxruntime is absent: it runs no training step")
    version = subprocess.run([options.dtc, "--version"], capture_output=True, text=True).stdout.strip()
    report = {"machine": about, "load_after": list(os.getloadavg()), "dtc": version, "threads": options.threads,
              "command": " ".join([f"bench/{options.suite}.sh", *sys.argv[6:]]), "steps": results}
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{options.suite}.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
