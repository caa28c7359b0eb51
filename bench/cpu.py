"""dtc's CPU kernels against this machine's roofline, and against peers.

The roofline of a row is the larger of two times: its bytes (every kernel's inputs read once, its outputs written once) over
the bandwidth of a stream with the same mixture of reads and writes (bench/streams.cpp, arrays as large as the row's), and its
bytes over the rate of the same kernels on data in the second-level cache: one thread, the minimum of many runs, the difference
of two sizes so that the fixed cost of a step cancels, times the threads. Stream, dtc and every peer take turns for several
rounds. Percent of roofline is the best run of all rounds against the best stream of all rounds: other work on the machine slows
single runs by factors, and the minima exclude it. Ratios to peers are of each round's best runs, with a 95 % interval. Peers
that are not installed are reported and excluded."""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

import rows as table

PEERS = ("jax", "torch", "torch.compile", "onnxruntime")
CACHED = {"attention": (64, 128), "adamw": (0, 0)}  # two numbers of rows whose data fit the second-level cache, if they are not...
CACHED_ELEMENTS = (24 << 10, 72 << 10)  # ...these numbers of elements


class Peer:
    def __init__(self, python, name, threads):
        script = pathlib.Path(__file__).parent / "peers.py"
        self.name = name
        self.process = subprocess.Popen([python, str(script), name, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        first = self.process.stdout.readline()
        self.version = json.loads(first)["version"] if first else None

    def milliseconds(self, row, size, repeat):
        if self.process.poll() is not None:
            return None
        self.process.stdin.write(json.dumps({"row": row, **dataclasses.asdict(size), "repeat": repeat}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer).get("ms") if answer else None

    def close(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


class Bench:
    def __init__(self, options):
        self.options, self.folder = options, tempfile.TemporaryDirectory()
        self.dtc = pathlib.Path(options.build) / "bin/dtc"
        self.streams_binary = pathlib.Path(self.folder.name) / "streams"
        compiler = next(c for c in ("clang++-19", "clang++") if shutil.which(c))
        source = pathlib.Path(__file__).parent / "streams.cpp"
        subprocess.run([compiler, "-O3", "-march=native", "-pthread", "-Wno-psabi", "-w", str(source), "-o", str(self.streams_binary)], check=True)

    def stream(self, kind, megabytes):
        command = [self.streams_binary, kind, str(max(48, megabytes)), str(self.options.repeat), str(self.options.threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def size(self, rows):
        return table.Size(rows, self.options.columns, self.options.dtype)

    def run(self, name, rows, repeat, threads):
        """Milliseconds of each run, and the bytes accessed by its kernels."""
        text = table.adamw(rows) if name == "adamw" else table.ROWS[name].text(self.size(rows))
        file = pathlib.Path(self.folder.name) / f"{name}-{rows}.dt"
        file.write_text(text)
        steps = ["--loop", str(repeat + 2)] if name == "adamw" else ["--warmup", "2", "--repeat", str(repeat)]
        command = [self.dtc, "run", file, f"-O{self.options.level}", "--threads", str(threads), "--input", "*=uniform(1,0.1,1)",
                   "--stats", "--json", *steps]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        stats = json.loads(done.stdout)["stats"]
        counted = len(stats["run_ms"])
        times = stats["run_ms"][2:] if name == "adamw" else stats["run_ms"]
        return times, sum(s["bytes"] * s["calls"] for s in stats["steps"]) / counted

    def cache_rate(self, name):
        """GB/s of all threads, for the same kernels on data in the second-level cache; 0 where the row has no small form."""
        few, many = CACHED.get(name, tuple(n // self.options.columns for n in CACHED_ELEMENTS))
        if not few:
            return 0
        best = {}
        for rows in (few, many, few, many):
            times, moved = self.run(name, rows, 400, 1)
            best[rows] = (min([min(times), *([best[rows][0]] if rows in best else [])]), moved)
        (t0, b0), (t1, b1) = best[few], best[many]
        return (b1 - b0) / max(1e-9, (t1 - t0) * 1e6) * self.options.threads

    def row(self, name, peers):
        rows = {"adamw": 3, "attention": 1024}.get(name, self.options.elements // self.options.columns)
        kind = "update" if name == "adamw" else table.ROWS[name].stream
        cache = self.cache_rate(name)
        rounds, moved = [], self.run(name, rows, 1, self.options.threads)[1]
        for _ in range(self.options.rounds):
            one = {"stream": self.stream(kind, int(moved / (1 << 20)))}
            one["dtc"] = min(self.run(name, rows, self.options.repeat, self.options.threads)[0])
            for p in peers:
                times = p.milliseconds(name, self.size(rows), self.options.repeat)
                if times:
                    one[p.name] = min(times)
            rounds.append(one)
        memory_bound = name == "adamw" or table.ROWS[name].memory_bound
        best = {key: (max if key == "stream" else min)(r[key] for r in rounds) for key in rounds[0]}
        found = {"row": name, **dataclasses.asdict(self.size(rows)), "bytes": moved, "ms": best["dtc"], "median_ms": statistics.median(r["dtc"] for r in rounds),
                 "stream": kind, "stream_gb_per_s": best["stream"], "cache_gb_per_s": cache, "rounds": rounds}
        if memory_bound:
            roofline = max(moved / (best["stream"] * 1e6), moved / (cache * 1e6) if cache else 0)
            found["percent_of_roofline"] = 100 * roofline / best["dtc"]
        found["best_times_faster_than"] = {p.name: round(best[p.name] / best["dtc"], 3) for p in peers if p.name in best}
        best_peer = min((best[p.name] for p in peers if p.name in best), default=None)
        found["past_the_caches"] = moved > last_cache()
        found["us_over_best_peer"] = None if best_peer is None else 1e3 * (best["dtc"] - best_peer)
        found["times_faster_than"] = {p.name: interval([r[p.name] / r["dtc"] for r in rounds]) for p in peers if p.name in rounds[0]}
        return found


def interval(ratios):
    """Geometric mean, and its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    half = 2.3 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
    return [round(math.exp(v), 3) for v in (mean, mean - half, mean + half)]


def last_cache():
    """Bytes of the last-level cache."""
    sizes = [p.read_text().strip() for p in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(s[:-1]) << {"K": 10, "M": 20}[s[-1]] for s in sizes), default=32 << 20)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform(), "load_before": list(os.getloadavg())}


def find_peers(options):
    """(the peers that run, messages about those that do not)"""
    python = options.peers or str(pathlib.Path(options.build).parent / "peers/bin/python")
    found, absent = [], []
    for name in PEERS if options.peers != "none" else ():
        if not shutil.which(python):
            absent = [f"peers: none; bench/setup-peers.sh installs them ({python} is not there)"]
            break
        peer = Peer(python, name, options.threads)
        if peer.version:
            found.append(peer)
        else:
            absent.append(f"peer {name} is absent: it does not import")
    return found, absent


def shown(r, peers):
    percent = r.get("percent_of_roofline")
    line = (f"{r['row']:20} {r['ms']:9.3f} {r['bytes'] / r['ms'] / 1e6:7.1f} {r['stream_gb_per_s']:7.1f} {r['cache_gb_per_s']:9.1f} "
            + (f"{percent:10.0f}%" if percent else f"{'':11}"))
    for p in peers:
        ratio = r["times_faster_than"].get(p.name)
        line += f" {r['best_times_faster_than'][p.name]:8.2f}x ({ratio[1]:.2f}-{ratio[2]:.2f})" if ratio else f" {'':>21}"
    lost = [p for p, ratio in r["times_faster_than"].items() if ratio[2] < 0.95]
    if lost:
        line += f"  slower than {' and '.join(lost)}"
    if percent and r["past_the_caches"] and percent < 85:
        line += "  below the target of 85"
    if not r["past_the_caches"] and (over := r["us_over_best_peer"]) is not None and over > 1:
        line += f"  {over:.1f} us more than the best peer"
    return line


def main():
    names = [*table.ROWS, "adamw"]
    apart = ("attention", "adamw")  # their sizes and dtype are fixed
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", help="rows, separated by commas (default: all; with another size or dtype all that support it)")
    parser.add_argument("--columns", type=int, default=4096, help="the length of a row")
    parser.add_argument("--elements", type=int, help="of a wide tensor (2^24)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--level", default="2", help="-O level: 2, or 3, which measures schedules")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=9, help="runs per round; the best one counts")
    parser.add_argument("--peers", help="the python with the peers, or none (build/peers)")
    parser.add_argument("--quick", action="store_true", help="wide tensors of 2^22 elements")
    options = parser.parse_args()
    options.elements = options.elements or (1 << 22 if options.quick else 1 << 24)
    usual = (options.columns, options.dtype) == (4096, "f32")
    chosen = options.rows.split(",") if options.rows else [n for n in names if usual or n not in apart]
    unknown = [n for n in chosen if n not in names]
    if unknown:
        parser.error(f"there is no row {unknown[0]}; expected {', '.join(names)}")
    bench, about = Bench(options), machine()
    peers, absent = find_peers(options)
    version = subprocess.run([bench.dtc, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"{'row':20} {'ms':>9} {'GB/s':>7} {'stream':>7} {'in cache':>9} {'of roofline':>11}" + "".join(f" {'x ' + p.name:>21}" for p in peers))
    results = []
    for name in chosen:
        results.append(bench.row(name, peers))
        print(shown(results[-1], peers), flush=True)
    for p in peers:
        ratios = [r["best_times_faster_than"][p.name] for r in results if p.name in r["best_times_faster_than"]]
        if ratios:
            print(f"geometric mean over {len(ratios)} rows: {math.exp(statistics.fmean(map(math.log, ratios))):.2f} times as fast as {p.name} {p.version}")
        p.close()
    print("\n".join(absent) or "all peers are present")
    load, cores = os.getloadavg()[0], os.cpu_count()
    if load > 1.5 * cores:
        print(f"this machine is busy (load {load:.1f} on {cores} cores): absolute times are unreliable, ratios within a round less so")
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    report = {"machine": about, "load_after": list(os.getloadavg()), "dtc": version, "peers": {p.name: p.version for p in peers}, "absent": absent,
              "command": " ".join(["bench/cpu.sh", *sys.argv[5:]]), "threads": options.threads, "rows": results}
    (out / "cpu.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
