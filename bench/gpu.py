"""Checks the correctness of dtc on the GPU of this machine, then measures its speed (bench/gpu.sh).

Parts, each in less than ten minutes, in this order unless --only selects one:
  layers  ten small programs, one per layer of the software
  right   every program of the tests that runs under cuda-emu, the examples and the models, each against the reference evaluator (`run --check`), step by
          step (-O1) and as CUDA graphs (-O2, three runs), on 1, 2, 4 and 8 logical devices; NCCL with one rank, and with two where the NCCL of this machine
          lets them share a GPU
  speed   dtc alone: training steps of GPT and Llama in bf16; memory-bound kernels against a device-to-device copy of as many bytes (counting the
          necessary bytes: each argument read once, each result written once); convolutions, matrix products, attention, scans and sorts
  steps   training steps beside torch.compile (default and max-autotune) and JAX
  rows    kernel rows beside torch.compile and JAX
The results are gpu.json, written after each row, and the printed table. A later call with the same binary on the same GPU continues: what is in gpu.json
is not measured again."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gpu_cases
import gpu_copy
import gpu_diagnosis
import gpu_right
import gpu_speed

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
    """The results so far, on disk, in case this script is killed. Continues the results of an earlier call with the same key."""

    def __init__(self, folder, key, earlier):
        self.folder, self.begin, self.found = pathlib.Path(folder), time.monotonic(), {}
        for path in earlier:
            if not self.found and path.exists():
                before = json.loads(path.read_text())
                if before.get("key") == key:
                    self.found = before
                    print(f"continues {path}", flush=True)
        self.found["key"] = key

    def part(self, name):
        return self.found.setdefault(name, {})

    def write(self, **parts):
        self.found.update(parts)
        if self.found.get("backend") != "cuda":
            return
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


def key_of(dtc, about, tiny):
    """What results must have in common to be continued."""
    names = [gpu.get("name") for gpu in cuda_of(about).get("gpus", [])]
    return {"binary": hashlib.sha256(pathlib.Path(dtc.path).read_bytes()).hexdigest()[:16], "gpus": names, "tiny": tiny}


def correctness(dtc, options, clock, report, backend, gpus):
    # About two seconds of processor time each: the driver, libraries, NVRTC.
    cases = [c for c in gpu_cases.cases(TOP, backend, options.quick) if re.search(options.match, c.name)]
    print(f"right: {len(cases)} programs, {options.workers} at a time", flush=True)
    share = Clock(clock.left() * (0.5 if backend == "cuda" and not options.only else 0.95))
    failed = gpu_right.right(dtc, cases, share, options.workers, report)
    if backend == "cuda":
        report.write(nccl=gpu_right.try_nccl(dtc, gpus))
    if failed:
        report.write(causes=gpu_diagnosis.explain(dtc, failed, clock))


def speed(dtc, options, clock, report):
    kernels, models = ([row for row in make(options.quick, options.tiny) if re.search(options.match, row.name)]
                       for make in (gpu_cases.kernel_rows, gpu_cases.model_rows))
    python = options.peers or sys.executable
    with tempfile.TemporaryDirectory() as folder, gpu_copy.Copy() as copy:
        print(f"a copy on the device: {copy.gb_per_s((2 if options.tiny else 4096) << 20):.0f} GB/s, read and written", flush=True)
        measure = gpu_speed.Rows(dtc, copy.gb_per_s, folder)
        if options.only in (None, "speed"):
            gpu_speed.alone(measure, models + kernels, clock, report)
        if options.only in (None, "steps") and options.peers != "none":
            gpu_speed.beside(measure, models, gpu_speed.STEP_PEERS, python, clock, report)
        if options.only in (None, "rows") and options.peers != "none":
            gpu_speed.beside(measure, kernels, gpu_speed.ROW_PEERS, python, clock, report)
        if options.profile:
            gpu_speed.profile(measure, kernels, clock, report)
    report.write()
    print(gpu_speed.table(report.found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="the folder of gpu.json")
    parser.add_argument("--dtc", help="the binary (build/release/bin/dtc, then carry/dtc)")
    parser.add_argument("--only", choices=["layers", "right", "speed", "steps", "rows"])
    parser.add_argument("--profile", action="store_true", help="run ncu on the rows below their target")
    parser.add_argument("--again", action="store_true", help="do not continue earlier results")
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to test this script itself")
    parser.add_argument("--match", default="", help="only programs and rows whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=540, help="total time limit")
    parser.add_argument("--workers", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)), help="programs checked concurrently")
    parser.add_argument("--peers", help="the python with torch and jax, or none (default: this one)")
    options = parser.parse_args()
    dtc, clock = Dtc(options), Clock(options.seconds)
    about = machine(dtc)
    cuda = cuda_of(about)
    backend = "cuda" if cuda["available"] else "cuda-emu"
    earlier = [] if options.again else [pathlib.Path(options.out) / "gpu.json", TOP / "bench/results/gpu.json"]
    report = Report(options.out, key_of(dtc, about, options.tiny), earlier)
    report.write(machine=about, command=" ".join(["bench/gpu.sh", *sys.argv[3:]]), backend=backend)
    if backend == "cuda":
        print(f"{len(cuda['gpus'])} x {cuda['gpus'][0]['name']}, driver {cuda['driver']}", flush=True)
        print(dtc.run("%dtc devices", 60)[1] + about.get("nvidia_smi", ""), flush=True)
        if options.only == "layers" or (not options.only and not options.match) or (options.only == "right" and not options.match):
            with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
                report.write(layers=gpu_diagnosis.layers(dtc, pool))
    else:
        print(f"No GPU ({cuda['why_not'].splitlines()[0]}): the programs run on the emulator, and no speed is measured.", flush=True)
    if options.only in (None, "right"):
        correctness(dtc, options, clock, report, backend, len(cuda.get("gpus", [])))
    if backend == "cuda" and options.only not in ("layers", "right"):
        try:
            speed(dtc, options, clock, report)
        except (OSError, RuntimeError, AttributeError) as e:
            print(f"FAIL the copy on the device: {e}", flush=True)
            report.part("not_measured")["copy"] = str(e)
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
