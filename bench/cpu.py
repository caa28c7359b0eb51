"""Percent of floor of dtc's memory-bound CPU kernels.

The floor of a kernel is the larger of two times: its bytes (every input read once, every output written once) over the
bandwidth of a triad, and its bytes over the rate that the same kernel has on data that fit the second cache (what it could do
if memory were free). Triad and kernels alternate; a row is the median of all runs. Peers are named, measured if they are
installed, and otherwise said to be absent."""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROWS = {
    "pointwise": "%a = add %x, %y\n  %b = mul %a, 0.5\n  %c = sub %b, %x\n  %z = max %c, %y",
    "bias-gelu-residual": "%a = add %x, %b\n  %g = gelu %a\n  %z = add %g, %y",
    "bias-gelu-tanh": "%a = add %x, %b\n  %z = gelu %a {approximate = \"tanh\"}",
    "softmax": "%z = softmax %x {dims = [1]}",
    "log_softmax": "%z = log_softmax %x {dims = [1]}",
    "layer_norm": "%z = layer_norm %x, %w, %b {dims = [1]}",
    "rms_norm": "%z = rms_norm %x, %w {dims = [1]}",
    "cross_entropy": "%z = cross_entropy %x, %l",
    "column-sum": "%z = sum %x {dims = [0]}",
    "dropout": "%z = dropout %seed, %x {p = 0.1}",
}
COLUMNS = 4096


def program(name, rows, dtype):
    types = {
        "%x": f"{dtype}[{rows}, {COLUMNS}]", "%y": f"{dtype}[{rows}, {COLUMNS}]", "%b": f"{dtype}[{COLUMNS}]",
        "%w": f"{dtype}[{COLUMNS}]", "%l": f"i32[{rows}]", "%seed": "u64[2]",
    }
    body = ROWS[name]
    defined = {line.split("=")[0].strip() for line in body.split("\n")}
    words = set(body.replace(",", " ").split())
    args = [f"{a}: {t}" for a, t in types.items() if a in words and a not in defined]
    shape = {"cross_entropy": f"[{rows}]", "column-sum": f"[{COLUMNS}]"}.get(name, f"[{rows}, {COLUMNS}]")
    return f"func @main({', '.join(args)}) -> (%z: {dtype}{shape}) {{\n  {body}\n  return %z\n}}\n"


class Bench:
    def __init__(self, options):
        self.options = options
        self.dtc = pathlib.Path(options.build) / "bin/dtc"
        self.folder = tempfile.TemporaryDirectory()
        self.triad_binary = pathlib.Path(self.folder.name) / "triad"
        source = pathlib.Path(__file__).parent / "triad.cpp"
        compiler = next(c for c in ("clang++-19", "clang++") if subprocess.run(["which", c], capture_output=True).returncode == 0)
        subprocess.run([compiler, "-O3", "-march=native", "-pthread", "-Wno-psabi", str(source), "-o", str(self.triad_binary)],
                       check=True)

    def triad(self):
        shown = subprocess.run([self.triad_binary, "64", "3"], check=True, capture_output=True, text=True).stdout
        return max(float(v) for v in shown.split())

    def run(self, name, rows, repeat):
        """Milliseconds of each run, and the bytes of one."""
        file = pathlib.Path(self.folder.name) / f"{name}.dt"
        file.write_text(program(name, rows, self.options.dtype))
        command = [self.dtc, "run", str(file), f"-O{self.options.level}", "--input", "*=const(0.5)", "--stats", "--json", "--warmup", "2",
                   "--repeat", str(repeat)]
        stats = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["stats"]
        return stats["run_ms"], sum(s["bytes"] * s["calls"] for s in stats["steps"]) / repeat

    def row(self, name):
        rows = 4096 if not self.options.quick else 1024
        small = max(8, 512 * 1024 // (COLUMNS * 4))  # half a mebibyte of x: in the second cache of each core
        bandwidths, times, bytes_moved = [], [], 0
        for _ in range(3):
            bandwidths.append(self.triad())
            ms, bytes_moved = self.run(name, rows, 5)
            times += ms
        fast, small_bytes = self.run(name, small, 200)
        bandwidth, time = statistics.median(bandwidths), statistics.median(times)
        rate = small_bytes / (min(fast) * 1e6)  # GB/s
        floor = max(bytes_moved / (bandwidth * 1e6), bytes_moved / (rate * 1e6))
        return {"row": name, "dtype": self.options.dtype, "shape": [rows, COLUMNS], "bytes": bytes_moved, "ms": time,
                "gb_per_s": bytes_moved / time / 1e6, "triad_gb_per_s": bandwidth, "cache_gb_per_s": rate,
                "percent_of_floor": 100 * floor / time, "runs_ms": times}


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform(), "load": list(os.getloadavg())}


def peers():
    found = []
    for module in ("torch", "jax", "onnxruntime"):
        if subprocess.run(["python3", "-c", f"import {module}"], capture_output=True).returncode == 0:
            found.append(module)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--level", default="1", help="-O level: 1, or 3, which measures schedules")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.given = sys.argv[5:]  # after the two that cpu.sh adds
    bench = Bench(options)
    version = subprocess.run([bench.dtc, "--version"], capture_output=True, text=True).stdout.strip()
    results = []
    print(f"{'row':20} {'ms':>9} {'GB/s':>7} {'triad':>7} {'in cache':>9} {'% of floor':>11}")
    for name in options.rows.split(","):
        r = bench.row(name)
        results.append(r)
        lost = "" if r["percent_of_floor"] >= 85 else "  below the target of 85"
        print(f"{name:20} {r['ms']:9.3f} {r['gb_per_s']:7.1f} {r['triad_gb_per_s']:7.1f} {r['cache_gb_per_s']:9.1f} "
              f"{r['percent_of_floor']:11.0f}{lost}", flush=True)
    load, cores = os.getloadavg()[0], os.cpu_count()
    if load > 1.5 * cores:
        print(f"this machine does other work (load {load:.1f} on {cores} cores): the ratios say little")
    have = peers()
    print("peers: " + (", ".join(have) + " (not measured by this script)" if have else "none installed: torch, jax and onnxruntime are absent"))
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "dtc": version, "command": " ".join(["bench/cpu.sh", *options.given]), "columns": COLUMNS, "rows": results}
    (out / "cpu.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
