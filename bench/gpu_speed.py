"""Speed on a GPU: training steps and kernel rows, alone and beside torch.compile and JAX, and what a profiler says of slow rows (bench/gpu.py).

A row's time is the sum of its kernels' times, between events on the device, in a run that begins with a memset of 128 MiB: without it the first event
would be stamped on an idle GPU, microseconds before the kernel arrives. Peers are timed in the same way, or as a captured graph (gpu_peers.py)."""

import array
import csv
import io
import json
import math
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading

import gpu_cases
import gpu_diagnosis

# In the order in which they are asked: compiling with max-autotune takes minutes.
ROW_PEERS, STEP_PEERS = ("torch.compile", "jax"), ("torch.compile", "jax", "torch.compile max-autotune")
STOPPED = 4  # rows stopped at their limit, after which no more are started


class Numbers:
    """Files with random arguments: generating them for each row would take longer than the row. From 0.1 to 1."""

    def __init__(self, folder):
        self.folder, self.files = pathlib.Path(folder), {}

    def file(self, dtype, count):
        wide = gpu_cases.SIZE[dtype]
        if self.files.get(dtype, (None, 0))[1] < count:
            path, block = self.folder / f"{dtype}.raw", self.block(dtype)
            with path.open("wb") as out:
                for _ in range(-(-count * wide // len(block))):
                    out.write(block)
            self.files[dtype] = (path, count)
        return self.files[dtype][0]

    @staticmethod
    def block(dtype, count=1 << 18):
        draw = random.Random(1)
        if dtype == "i32":  # labels
            return array.array("i", (draw.randrange(8) for _ in range(count))).tobytes()
        if dtype == "f8e4m3":
            return bytes(draw.choices(range(0x1d, 0x38), k=count))
        floats = array.array("f", (draw.uniform(0.1, 1) for _ in range(count))).tobytes()
        return floats if dtype == "f32" else b"".join(floats[i + 2:i + 4] for i in range(0, len(floats), 4))


class Rows:
    """Measures rows of dtc alone: {"ms": …} and what else is known of them."""

    def __init__(self, dtc, copy, folder):
        self.dtc, self.copy, self.folder, self.numbers = dtc, copy, pathlib.Path(folder), Numbers(folder)

    def command(self, row):
        """A kernel row's program as a shell command, and its necessary bytes."""
        text, arguments, moved = row.program()
        file = self.folder / (re.sub(r"\W+", "-", row.name) + ".dt")
        file.write_text(text)
        given = " ".join(f"--input {name}=raw:{self.numbers.file(dtype, math.prod(shape))}" for name, dtype, shape in arguments)
        return f"%dtc run {file} --backend cuda -O1 {row.flags} {given}", moved

    def kernel(self, row):
        command, moved = self.command(row)
        report = self.dtc.json(f"{command} --warmup 3 --repeat 9 --stats --json", 60)["stats"]
        milliseconds = sum(s["ns"] for s in report["steps"]) / len(report["run_ms"]) / 1e6
        rate, copied = moved / milliseconds / 1e6, self.copy(moved)
        return {"ms": milliseconds, "bytes": moved, "flops": row.flops, "gb_per_s": rate, "copy_gb_per_s": copied,
                "percent_of_copy": 100 * rate / copied if copied else None, "target": row.target, "tflop_per_s": row.flops / milliseconds / 1e9,
                "kernels": len(report["steps"]), "steps": [{"name": s["name"], "ns": s["ns"] / len(report["run_ms"])} for s in report["steps"]]}

    def model(self, row):
        """Milliseconds of a training step as a graph, and the host overhead."""
        given = " ".join(f"--input '{name}={value}'" for name, value in row.inputs())
        run = f"%dtc model {row.arguments} | %dtc run - --backend cuda {given} --print loss --stats --json"
        report = self.dtc.json(f"{run} -O2 --warmup 3 --repeat 8", 150)["stats"]
        launched = max(1, report.get("device_steps", 1))
        return {"ms": statistics.median(report["run_ms"]), "host_us": report.get("host_ns", 0) / 1e3,
                "host_us_per_kernel": report.get("host_ns", 0) / 1e3 / launched, "device_steps": launched, "graphs": report.get("graphs_started"),
                "arena_bytes": report["arena_bytes"], "arena_lower_bound": report["arena_lower_bound"],
                "steps": sorted(({"name": s["name"], "ns": s["ns"], "line": s.get("line")} for s in report["steps"]), key=lambda s: -s["ns"])[:40]}

    def one(self, row):
        return self.model(row) if isinstance(row, gpu_cases.ModelRow) else self.kernel(row)


def short(found):
    """A row's rate, printed immediately in case this script is killed before the table."""
    if found.get("flops"):
        return f", {found['tflop_per_s']:.0f} TFLOP/s"
    return f", {found['percent_of_copy']:.0f}% of copy" if found.get("percent_of_copy") is not None else ""


def alone(measure, rows, clock, report):
    """Measures what is not yet in the report, the most informative rows first."""
    found, failed, stopped = report.part("rows"), report.part("not_measured"), 0
    todo = [row for row in rows if row.name not in found]
    for number, row in enumerate(todo, 1):
        least = 70 if isinstance(row, gpu_cases.ModelRow) else 12
        if clock.left() < least or stopped >= STOPPED:
            failed[row.name] = "no time was left" if stopped < STOPPED else "others were stopped"
            continue
        try:
            found[row.name] = measure.one(row)
            failed.pop(row.name, None)
            print(f"{number} of {len(todo)}: {row.name}: {found[row.name]['ms']:.3f} ms{short(found[row.name])} ({clock.spent():.0f} s)", flush=True)
        except (RuntimeError, ValueError, KeyError, OSError) as e:
            known = {gpu_diagnosis.cause(why) for why in failed.values()}
            failed[row.name] = str(e)[:700]
            stopped += "stopped after" in str(e)
            print(f"FAIL {row.name}: " + ("as before" if gpu_diagnosis.cause(failed[row.name]) in known else failed[row.name]), flush=True)
        report.write()


class Peer:
    """A process of gpu_peers.py that answers one order at a time."""

    def __init__(self, python, name, limit):
        self.lines, self.errors = queue.Queue(), tempfile.TemporaryFile("w+")
        environment = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")  # dtc's rows need memory, too
        script = str(pathlib.Path(__file__).parent / "gpu_peers.py")
        self.process = subprocess.Popen([python, script, *name.split()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=environment, start_new_session=True)
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout] + [self.lines.put("")], daemon=True).start()
        first = self.read(limit)
        self.version = first.get("version", "it does not import, or finds no GPU: " + first.get("absent", ""))
        self.works = "version" in first

    def read(self, limit):
        """The next answer, or {"absent": why}."""
        try:
            while line := self.lines.get(timeout=max(1, limit)):
                if line.startswith("{"):
                    return json.loads(line)
        except queue.Empty:
            self.close()
            return {"absent": f"stopped after {limit:.0f} s"}
        self.works = False
        self.errors.seek(0)
        return {"absent": (self.errors.read().strip().splitlines() or ["it ended"])[-1][:200]}

    def ask(self, order, limit):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.read(limit)

    def close(self):
        """Its compiler processes are killed with it."""
        self.works = False
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def beside(measure, rows, peers, python, clock, report):
    """Each row of dtc and of the peers, one after the other: a ratio is of times of the same minute. A peer's own time is limited per row."""
    found, versions = report.part("beside"), report.part("peers")
    for name in peers:
        todo = [row for row in rows if name not in found.get(row.name, {}) and row.name not in report.part("not_measured")]
        limit = 240 if "max-autotune" in name else 100
        if not todo or clock.left() < 40:
            continue
        peer = Peer(python, name, min(90, clock.left() - 10))
        versions[name] = peer.version
        print(f"{name}: {peer.version} ({clock.spent():.0f} s)", flush=True)
        for row in todo:
            if not peer.works or clock.left() < 30:
                break
            try:
                own = measure.one(row)
            except (RuntimeError, ValueError, KeyError, OSError) as e:
                report.part("not_measured")[row.name] = str(e)[:700]
                print(f"FAIL {row.name}: {str(e)[:300]}", flush=True)
                continue
            report.part("rows").setdefault(row.name, own)
            answer = peer.ask(row.order(), min(limit, clock.left() - 15))
            one = found.setdefault(row.name, {})
            if "ms" in answer:
                one[name] = {"ms": answer["ms"], "dtc_ms": own["ms"], "how": answer.get("how", ""), "times_faster": answer["ms"] / own["ms"]}
                print(f"{row.name}: dtc {own['ms']:.3f} ms{short(own)}, {name} {answer['ms']:.3f} ms: {answer['ms'] / own['ms']:.2f} times faster "
                      f"({clock.spent():.0f} s)", flush=True)
            else:
                one[name] = {"absent": answer["absent"]}
                print(f"{row.name}: {name}: {answer['absent'][:200]}", flush=True)
            report.write()
        peer.close()


# --- profile ---

METRICS = {  # of Nsight Compute: our name for each
    "gpu__time_duration.sum": "duration", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent", "sm__inst_issued.avg.pct_of_peak_sustained_active": "issue_percent",
    "launch__registers_per_thread": "registers", "launch__grid_size": "blocks", "launch__block_size": "threads",
}
STALLS = "smsp__pcsamp_warps_issue_stalled_"


def profiled(text):
    """[{"kernel", metrics, "stalls": {reason: samples}}] from ncu's CSV."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    found = []
    for row in list(csv.DictReader(io.StringIO("\n".join(lines[begin:]))))[1:]:  # the first one has the units
        def number(value):
            return float(value.replace(",", "")) if re.fullmatch(r"[\d.,]+", value or "") else None
        one = {"kernel": row.get("Kernel Name", "").split("(")[0]}
        one.update({ours: number(row[name]) for name, ours in METRICS.items() if name in row})
        stalls = {name.removeprefix(STALLS): number(value) for name, value in row.items() if name.startswith(STALLS) and "not_issued" not in name}
        one["stalls"] = dict(sorted(((k, v) for k, v in stalls.items() if v), key=lambda kv: -kv[1])[:5])
        found.append(one)
    return found


def profile(measure, rows, clock, report):
    """ncu on the kernel rows below their target, the slowest first."""
    if not shutil.which("ncu"):
        print("--profile: ncu (Nsight Compute) is not installed", flush=True)
        return
    found, all_rows = report.part("profile"), report.part("rows")
    below = [row for row in rows if row.name not in found and is_below(all_rows.get(row.name, {}))]
    metrics = ",".join([*METRICS, "group:smsp__pcsamp_warp_stall_reasons"])
    for row in sorted(below, key=lambda row: all_rows[row.name]["percent_of_copy"] / all_rows[row.name]["target"]):
        if clock.left() < 30:
            break
        command, _ = measure.command(row)
        code, out, err = measure.dtc.run(f"ncu --csv --page raw --kernel-name regex:^k_ --metrics {metrics} {command} --print none", 60)
        found[row.name] = profiled(out) or [{"failed": (err or out).strip()[-300:], "code": code}]
        for one in found[row.name]:
            print(f"profile: {row.name}: " + ", ".join(f"{k} {v}" for k, v in one.items()), flush=True)
        report.write()


# --- the table ---

def is_below(row):
    return bool(row.get("target")) and row.get("percent_of_copy") is not None and row["percent_of_copy"] < row["target"]


def table(found):
    out = [f"{'row':42} {'ms':>9} {'GB/s':>8} {'of copy':>8} {'target':>7} {'TFLOP/s':>8}  times faster than"]
    for name, r in found.get("rows", {}).items():
        ratios = "  ".join(f"{p} {v['times_faster']:.2f}" for p, v in found.get("beside", {}).get(name, {}).items() if "times_faster" in v)
        if "host_us" in r:
            out.append(f"{name:42} {r['ms']:9.3f} ms a step; host {r['host_us']:.0f} us, {r['host_us_per_kernel']:.2f} us a kernel (target 1.3); "
                       f"memory {r['arena_bytes'] / max(1, r['arena_lower_bound']):.2f} x its bound  {ratios}")
            continue
        share = r["percent_of_copy"]
        rates = f"{'':8} {'':8} {'':7} {r['tflop_per_s']:8.1f}" if r["flops"] else (
            f"{r['gb_per_s']:8.0f} {f'{share:.0f}%' if share is not None else '':>8} {str(r['target']) + '%' if r['target'] else '':>7} {'':8}")
        out.append(f"{name:42} {r['ms']:9.3f} {rates}  {ratios}{'  below' if is_below(r) else ''}")
    failed = [{"row": row, "why": why} for row, why in found.get("not_measured", {}).items()]
    for _, rows in gpu_diagnosis.causes(failed):
        out.append(f"not measured: {', '.join(r['row'] for r in rows)}: {rows[0]['why'][:400]}")
    out += [f"peer {p}: {v}" for p, v in found.get("peers", {}).items()]
    return "\n".join(out)
