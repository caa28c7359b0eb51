"""Checks the correctness of dtc on the GPU of this machine, then measures its speed (bench/gpu.sh).

Right: every program of the tests that runs under cuda-emu, the examples and the models, each against the reference evaluator (`run --check`), step
by step (-O1) and as CUDA graphs (-O2, three runs), on 1, 2, 4 and 8 logical devices; NCCL with one rank, and with two where the NCCL of this
machine lets them share a GPU. Fast: a training step of GPT and Llama in bf16, the host overhead, memory-bound kernels against a device-to-device copy
measured in the same run (counting the necessary bytes: each argument read once, each result written once), convolutions, matrix products, attention,
scans and sorts; compared with torch.compile and JAX where they are installed. The results are bench/results/gpu.json, and the printed table."""

import argparse
import array
import concurrent.futures
import json
import math
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_cases
import gpu_copy
import gpu_diagnosis

TOP = pathlib.Path(__file__).resolve().parent.parent


class Dtc:
    def __init__(self, options):
        self.path = options.dtc or next((str(p) for p in (TOP / "build/release/bin/dtc", TOP / "carry/dtc") if p.exists()), None)
        if not self.path:
            sys.exit("gpu.sh: no dtc binary: build it (scripts/build.sh release), or copy carry/ (bench/carry.sh) here")
        self.environment = dict(os.environ)
        carried = pathlib.Path(self.path).parent / "lib"
        if carried.is_dir() and self.run("%dtc --version", 20)[0]:  # only if this machine lacks the libraries: other programs would get them, too
            self.environment["LD_LIBRARY_PATH"] = f"{os.environ.get('LD_LIBRARY_PATH', '')}:{carried}".strip(":")

    def run(self, command, limit):
        """(code, stdout, stderr) of a shell command in which %dtc is the binary; 137 at the time limit: then all of its processes are killed, since
        a hanging kernel would block the GPU for the others."""
        shell = ["bash", "-o", "pipefail", "-c", command.replace("%dtc", f"'{self.path}'")]
        with subprocess.Popen(shell, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                              start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=limit)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                try:
                    out, err = process.communicate(timeout=10)
                except subprocess.TimeoutExpired:  # a process blocked in the driver
                    return 137, "", f"stopped after {limit:.0f} s, and does not end"
                return 137, out, f"{err}\nerror: stopped after {limit:.0f} s"

    def timed(self, command, limit):
        """The same, with the elapsed seconds."""
        begin = time.monotonic()
        return *self.run(command, limit), time.monotonic() - begin

    def json(self, command, limit=120):
        code, out, err = self.run(command, limit)
        if code:
            raise RuntimeError(" | ".join(gpu_diagnosis.error_lines("", err)) or f"exit code {code}")
        return json.loads(out)


class Clock:
    def __init__(self, seconds):
        self.begin, self.seconds = time.monotonic(), seconds

    def spent(self):
        return time.monotonic() - self.begin

    def left(self):
        return self.seconds - self.spent()


class Report:
    """The results so far, on disk, in case this script is killed."""

    def __init__(self, folder):
        self.folder, self.found, self.begin = pathlib.Path(folder), {}, time.monotonic()

    def write(self, **parts):
        self.found.update(parts)
        if self.found.get("backend") != "cuda":
            return
        self.found["seconds"] = time.monotonic() - self.begin
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / "gpu.json.new"
        new.write_text(json.dumps(self.found, indent=1) + "\n")
        new.replace(self.folder / "gpu.json")


def machine(dtc):
    code, version, err = dtc.run("%dtc --version", 20)
    if code:
        sys.exit(f"gpu.sh: {dtc.path} does not start on this machine: {err.strip()}")
    found = {"system": platform.platform(), "cores": os.cpu_count(), "python": sys.version.split()[0], "dtc": version.strip(),
             "compute_sanitizer": shutil.which("compute-sanitizer")}
    found["devices"] = dtc.json("%dtc devices --json", 60)
    if shutil.which("nvidia-smi"):
        found["nvidia_smi"] = dtc.run("nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,compute_mode,mig.mode.current,clocks.max.sm "
                                      "--format=csv,noheader", 20)[1].strip()
    return found


def cuda_of(about):
    return next(d for d in about["devices"] if d.get("backend") == "cuda")


# --- right ---

def check_one(dtc, case, clock, hung):
    """`hung`: the programs stopped so far; after some, the limit of further ones is reduced."""
    whole = 60 if len(hung) < 8 else 15
    limit = min(whole, max(5, clock.left()))
    code, out, err, seconds = dtc.timed(case.command, limit)
    if code == 137 and limit < whole:
        return None  # not started for lack of time
    found = {"case": case.name, "command": case.command.replace("%dtc", "dtc"), "shell": case.command, "code": code, "seconds": seconds}
    if code == 0 and not any(line.startswith("check ") for line in out.splitlines()):
        found["code"], out, err = -1, "error: no result was checked", ""
    if code == 137:
        hung.append(case.name)
    if found["code"]:
        found["why"] = "\n".join(gpu_diagnosis.error_lines(out, err)[:8])[:1500]
    return found


ALIKE = 24  # failures with one cause and no success: the others would fail, too


def right(dtc, cases, clock, workers, report):
    """Runs all; reports failures, each cause in full once. Cases skipped for lack of time are reported and do not count as passed."""
    results, skipped, hung, told = [], [], [], set()

    def hopeless():
        return len(results) >= ALIKE and all(r["code"] for r in results) and len(gpu_diagnosis.causes(results)) == 1

    def so_far():
        failed = [r for r in results if r["code"]]
        return {"passed": len(results) - len(failed), "failed": failed, "no_time": sorted(skipped), "seconds": clock.spent(),
                "slowest": [[r["case"], round(r["seconds"], 1)] for r in sorted(results, key=lambda r: -r["seconds"])[:8]],
                "cases": sorted(r["case"] for r in results)}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = {}
        for case in cases:
            waiting[pool.submit(lambda c=case: check_one(dtc, c, clock, hung) if clock.left() > 5 and not hopeless() else None)] = case
        for done in concurrent.futures.as_completed(waiting):
            found = done.result()
            if found is None:
                skipped.append(waiting[done].name)
                continue
            results.append(found)
            if len(results) % 25 == 0:
                print(f"right: {len(results)} of {len(cases)} ({clock.spent():.0f} s)", flush=True)
                report.write(right=so_far())
            cause = gpu_diagnosis.cause(found["why"]) if found["code"] else ""
            if found["code"] and cause not in told and len(told) < 8:
                print(f"FAIL {found['case']}\n  {found['command']}\n  " + found["why"][:500].replace("\n", "\n  "), flush=True)
            told.add(cause)
    out = so_far()
    print(f"right: {out['passed']} passed, {len(out['failed'])} failed, {len(skipped)} skipped for lack of time ({clock.spent():.0f} s)", flush=True)
    if hopeless():
        print(f"right: the first {len(results)} failed with one cause; the others were not run", flush=True)
    report.write(right=out)
    return out


def try_nccl(dtc, gpus):
    """One rank, and one per GPU, must work; two on one GPU only where NCCL supports it."""
    found = {}
    command = f"%dtc run {TOP}/examples/mlp.dt --backend cuda --comm nccl --input '*=uniform(1,-0.5,0.5)' --check -O2 --repeat 3"
    for ranks in sorted({1, 2, gpus}):
        code, out, err = dtc.run(command + f" --mesh pod=dp:1,tp:{ranks} | grep ^check", 45)
        why = " | ".join(gpu_diagnosis.error_lines("", err)[:2])
        must = ranks <= gpus
        found[f"{ranks} ranks"] = "right" if code == 0 else ("FAILED: " if must else "not with this NCCL: ") + why
        print(f"NCCL, {ranks} rank{'s' if ranks > 1 else ''} on {gpus} GPU{'s' if gpus > 1 else ''}: {found[f'{ranks} ranks']}", flush=True)
    return found


# --- fast ---

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


def kernel_row(dtc, row, copy_rate, folder, numbers):
    text, arguments, moved = row.program()
    file = pathlib.Path(folder) / (re.sub(r"\W+", "-", row.name) + ".dt")
    file.write_text(text)
    given = " ".join(f"--input {name}=raw:{numbers.file(dtype, math.prod(shape))}" for name, dtype, shape in arguments)
    report = dtc.json(f"%dtc run {file} --backend cuda -O1 {row.flags} {given} --warmup 3 --repeat 9 --stats --json", 40)["stats"]
    runs = len(report["run_ms"])
    milliseconds = sum(s["ns"] for s in report["steps"]) / runs / 1e6
    return {"row": row.name, "bytes": moved, "flops": row.flops, "ms": milliseconds, "gb_per_s": moved / milliseconds / 1e6,
            "percent_of_copy": 100 * moved / milliseconds / 1e6 / copy_rate if copy_rate else None, "kernels": len(report["steps"]),
            "steps": [s["name"] for s in report["steps"]], "target": row.target, "tflop_per_s": row.flops / milliseconds / 1e9}


def peer_lines(command, orders, seconds):
    """A peer's output up to its time limit, line by line; its compiler processes are killed with it."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        given.write(orders)
        given.seek(0)
        with subprocess.Popen([*command, str(int(seconds))], stdin=given, stdout=out, stderr=err, start_new_session=True) as process:
            try:
                process.wait(seconds + 15)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for file in (out, err):
            file.seek(0)
        return [line for line in out.read().splitlines() if line.startswith("{")], err.read().strip()


def peers_rows(rows, clock, python):
    """{row: {peer: ms}} of the peers that import; one process per peer answers one line per row."""
    script = pathlib.Path(__file__).parent / "gpu_peers.py"
    found, versions = {}, {}
    for peer in ("torch.compile", "jax"):
        if clock.left() < 30:
            versions[peer] = "no time was left"
            continue
        lines, err = peer_lines([python, str(script), peer], "\n".join(json.dumps(row.order()) for row in rows),
                                clock.left() / (2 if peer == "torch.compile" else 1))
        versions[peer] = json.loads(lines[0]).get("version") if lines else "it does not import, or finds no GPU: " + (err.splitlines() or [""])[-1][:200]
        for line in lines[1:]:
            try:
                answer = json.loads(line)
            except ValueError:  # the last one, incomplete
                continue
            if "ms" in answer:
                found.setdefault(answer["row"], {})[peer] = answer["ms"]
            elif answer["absent"] != "no time was left":
                print(f"{peer}: {answer['row']}: {answer['absent'][:200]}", flush=True)
    return found, versions


def model_row(dtc, model):
    """Milliseconds of a training step as a graph, and the host overhead."""
    report = dtc.json(f"%dtc model {model.arguments} | %dtc run - --backend cuda -O2 --input '*=randn(1,0.02)' --warmup 3 --repeat 8 --stats --json "
                      "--print loss", 100)["stats"]
    launched = max(1, report.get("device_steps", 1))
    return {"row": model.name, "ms": statistics.median(report["run_ms"]), "host_us": report.get("host_ns", 0) / 1e3,
            "host_us_per_kernel": report.get("host_ns", 0) / 1e3 / launched, "device_steps": launched, "graphs": report.get("graphs_started"),
            "arena_bytes": report["arena_bytes"], "arena_lower_bound": report["arena_lower_bound"],
            "steps": sorted(report["steps"], key=lambda s: -s["ns"])[:12]}


def measured_copy(mebibytes):
    """GB/s, or 0 and the reason."""
    try:
        return gpu_copy.gb_per_s(mebibytes), ""
    except (OSError, RuntimeError, AttributeError, statistics.StatisticsError, ZeroDivisionError) as e:
        return 0, str(e)


def short(row):
    """A row's rate, printed immediately in case this script is killed before the table."""
    if row.get("flops"):
        return f", {row['tflop_per_s']:.0f} TFLOP/s"
    return f", {row['percent_of_copy']:.0f}% of copy" if row.get("percent_of_copy") is not None else ""


STOPPED = 4  # rows stopped at their limit, after which no more are started


def fast(dtc, options, clock, report):
    copy_rate, why = measured_copy(1 if options.tiny else 2048)
    print(f"FAIL the copy on the device: {why}" if why else f"a copy on the device: {copy_rate:.0f} GB/s, read and written", flush=True)
    kernels, models = ([row for row in make(options.quick, options.tiny) if re.search(options.match, row.name)]
                       for make in (gpu_cases.kernel_rows, gpu_cases.model_rows))
    found = {"copy_gb_per_s": copy_rate, "kernels": [], "models": [], "failed": [{"row": "copy", "why": why}] if why else []}
    total, count, stopped = len(models) + len(kernels), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        numbers = Numbers(folder)
        # A third of the remaining time is for the peers.
        until = clock.left() * (1 if options.peers == "none" else 1 / 3)
        for make, rows, least in ((lambda r: model_row(dtc, r), models, 60), (lambda r: kernel_row(dtc, r, copy_rate, folder, numbers), kernels, 10)):
            for row in rows:
                count += 1
                if clock.left() < max(least, until if options.peers != "none" else 0) or stopped >= STOPPED:
                    found["failed"].append({"row": row.name, "why": "no time was left" if stopped < STOPPED else "others were stopped"})
                    continue
                try:
                    one = make(row)
                    found["models" if rows is models else "kernels"].append(one)
                    print(f"{count} of {total}: {row.name}: {one['ms']:.3f} ms{short(one)} ({clock.spent():.0f} s)", flush=True)
                except (RuntimeError, ValueError, KeyError, OSError) as e:
                    known = {gpu_diagnosis.cause(f["why"]) for f in found["failed"]}
                    found["failed"].append({"row": row.name, "why": str(e)[:700]})
                    stopped += "stopped after" in str(e)
                    print(f"FAIL {row.name}: " + ("as before" if gpu_diagnosis.cause(str(e)[:700]) in known else str(e)[:700]), flush=True)
                report.write(speed=found)
    if options.peers != "none":
        measured = {r["row"] for r in found["kernels"] + found["models"]}
        asked = [r for r in models + kernels if r.name in measured]
        times, found["peers"] = peers_rows(asked, clock, options.peers or sys.executable)
        for row in found["kernels"] + found["models"]:
            row["times_faster_than"] = {p: ms / row["ms"] for p, ms in times.get(row["row"], {}).items()}
    return found


def table(found):
    out = [f"{'row':42} {'ms':>9} {'GB/s':>8} {'of copy':>8} {'target':>7} {'TFLOP/s':>8}  times faster than"]
    for r in found["kernels"]:
        ratios = "  ".join(f"{p} {v:.2f}" for p, v in r.get("times_faster_than", {}).items())
        share = r["percent_of_copy"]
        miss = "  below" if r["target"] and share is not None and share < r["target"] else ""
        rates = f"{'':8} {'':8} {'':7} {r['tflop_per_s']:8.1f}" if r["flops"] else (
            f"{r['gb_per_s']:8.0f} {f'{share:.0f}%' if share is not None else '':>8} {str(r['target']) + '%' if r['target'] else '':>7} {'':8}")
        out.append(f"{r['row']:42} {r['ms']:9.3f} {rates}  {ratios}{miss}")
    for r in found["models"]:
        ratios = "  ".join(f"{p} {v:.2f}" for p, v in r.get("times_faster_than", {}).items())
        out.append(f"{r['row']:42} {r['ms']:9.3f} ms a step; host {r['host_us']:.0f} us, {r['host_us_per_kernel']:.2f} us a kernel (target 1.3); "
                   f"memory {r['arena_bytes'] / max(1, r['arena_lower_bound']):.2f} x its bound  {ratios}")
    for _, rows in gpu_diagnosis.causes(found["failed"]):
        out.append(f"not measured: {', '.join(r['row'] for r in rows)}: {rows[0]['why'][:400]}")
    out += [f"peer {p}: {v}" for p, v in found.get("peers", {}).items()]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--dtc", help="the binary (build/release/bin/dtc, then carry/dtc)")
    parser.add_argument("--only", choices=["layers", "right", "speed"])
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to test this script itself")
    parser.add_argument("--match", default="", help="only programs and rows whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=470, help="total time limit")
    parser.add_argument("--workers", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)), help="programs checked concurrently")
    parser.add_argument("--peers", help="the python with torch and jax, or none (default: this one)")
    options = parser.parse_args()
    dtc, clock = Dtc(options), Clock(options.seconds)
    about = machine(dtc)
    cuda = cuda_of(about)
    backend = "cuda" if cuda["available"] else "cuda-emu"
    report = Report(options.out)
    report.write(machine=about, command=" ".join(["bench/gpu.sh", *sys.argv[3:]]), backend=backend)
    if backend == "cuda":
        print(f"{len(cuda['gpus'])} x {cuda['gpus'][0]['name']}, driver {cuda['driver']}", flush=True)
        print(dtc.run("%dtc devices", 60)[1] + about.get("nvidia_smi", ""), flush=True)
        if options.only == "layers" or not options.match:
            with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
                report.write(layers=gpu_diagnosis.layers(dtc, pool))
    else:
        print(f"No GPU ({cuda['why_not'].splitlines()[0]}): the programs run on the emulator, and no speed is measured.", flush=True)
    if options.only not in ("layers", "speed"):
        # About two seconds of processor time each: the driver, libraries, NVRTC.
        cases = [c for c in gpu_cases.cases(TOP, backend, options.quick) if re.search(options.match, c.name)]
        print(f"right: {len(cases)} programs, {options.workers} at a time", flush=True)
        share = Clock(options.seconds * (0.5 if backend == "cuda" and not options.only else 0.95))
        failed = right(dtc, cases, share, options.workers, report)["failed"]
        if backend == "cuda":
            report.write(nccl=try_nccl(dtc, len(cuda["gpus"])))
        if failed:
            report.write(causes=gpu_diagnosis.explain(dtc, failed, clock))
    if backend == "cuda" and options.only not in ("layers", "right"):
        report.write(speed=fast(dtc, options, clock, report))
        print(table(report.found["speed"]))
        # Repeated at the end, where it is most visible.
        print("".join(f"layer: {name}: {said[:200]}\n" for name, said in report.found.get("layers", {}).items() if said.startswith("WRONG")), end="")
        for one in report.found.get("causes", [])[:4]:
            print(f"CAUSE of {one['count']}: {one['cause']}: {one['command']}: {one['why'][:200]}")
    report.write()
    if backend == "cuda":
        print(f"written: {report.folder / 'gpu.json'} ({clock.spent():.0f} s)")
    sys.exit(1 if is_wrong(report.found) else 0)


def is_wrong(found):
    wrong = [str(v) for part in ("layers", "nccl") for v in found.get(part, {}).values()]
    return bool(found.get("right", {}).get("failed")) or any(v.startswith(("FAILED", "WRONG")) for v in wrong)


if __name__ == "__main__":
    main()
