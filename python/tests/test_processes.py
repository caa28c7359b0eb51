"""Several processes: dtc.init_from_env() under mpirun, and with torchrun's variables.

Skipped where mpirun or the plugin dtc-mpi.so is missing; GPUs are tried where DTC_STUBS names the folder of the stub
libraries (build/release/stub), which stand in for CUDA and NCCL.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import dtc
import numpy
from programs import ROOT

# One write for each line: several processes write at the same time.
ERRORS = """
import sys
import time

import dtc
import numpy as np

TEXT = '''mesh @m = [a=2]
func @main(%x: f32[4] @m{a}, %limit: f32[]) -> (%y: f32[4] @m{a}, %s: f32[]) {
  %y = add %x, 1.0
  %s = sum %y
  expect_close %s, %limit
  return %y, %s
}
'''


def say(call):
    try:
        text = f"{call()}"
    except (dtc.Error, TypeError) as error:
        text = f"{type(error).__name__}: {error}"
    sys.stdout.write(f"{processes.rank} {text!r}\\n")


processes = dtc.init_from_env(threads=1, timeout=60)
say(lambda: dtc.compile(TEXT if processes.rank == 0 else TEXT.replace("sum", "sun")))
f = dtc.compile(TEXT)
say(lambda: (list(f.local_devices), f.shard_shapes("x"), f.num_devices))
whole, limit = np.arange(4, dtype=np.float32), np.float32(10)
say(lambda: f.run_shards(whole[2 * processes.rank :][:2], limit)[1])
say(lambda: f.run_shards(whole[processes.rank :], limit))
say(lambda: f(whole, limit))
say(lambda: f.run_shards(whole[2 * processes.rank :][:2], 11.0))
say(lambda: f.run_shards(whole[2 * processes.rank :][:2], 10.0))
sys.stdout.flush()
time.sleep(2)  # mpirun kills the others when a process exits without MPI_Finalize
"""

# What a process raises before its call meets the others is raised by all, and later calls pair as before.
EARLY = """
import os
import sys

import dtc
import numpy as np

TEXT = '''mesh @m = [a=2]
func @main(%x: f32[4] @m{a}, %w: f32[] {donate = true}) -> (%s: f32[], %w: f32[] {carry = true}) {
  %s = sum %x
  %v = add %w, 1.0
  return %s, %v
}
'''
os.chdir(sys.argv[1])
processes = dtc.init_from_env(threads=1, timeout=60)
wrong = processes.rank == 1
count = 0


def say(call, early=None):
    global count
    count += 1
    batch = [np.full(2, count, np.float32), np.float32(0)]
    try:
        text = f"{(early if early and wrong else call)(batch)}"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    sys.stdout.write(f"{processes.rank} {text!r}\\n")


def run(batch):
    return f.run_shards(*batch)[0]


say(lambda batch: dtc.compile(TEXT), lambda batch: dtc.compile(None))
say(lambda batch: dtc.compile(TEXT), lambda batch: dtc.compile(TEXT, dims={"N": "x"}))
f = dtc.compile(TEXT)
for early in (
    lambda batch: f.run_shards(batch[0]),
    lambda batch: f.run_shards(object(), batch[1]),
    lambda batch: f.run_shards(batch[0], "text"),
    lambda batch: f.run_shards(*batch, out=0),
    lambda batch: f(*batch, out=0),
    lambda batch: f(*batch, nothing=1),
):
    say(run, early)
    say(run)
say(lambda batch: f.bind_file("w.npz"), lambda batch: f.bind_file("none.npz"))
say(lambda batch: f.bind_file("w.npz"), lambda batch: f.bind_file(None))
say(run)
f.carry_over()
if wrong:
    say(lambda batch: f.carry_over())
    count -= 1
say(lambda batch: run([batch[0], None]))
say(run)
dtc.finalize()
"""

STUBS = os.environ.get("DTC_STUBS", "")
GPUS = {"LD_LIBRARY_PATH": STUBS, "DTC_STUB_GPUS": "8"}


def page():
    """The program, the script and its output of docs/cluster.md."""
    text = (ROOT / "docs/cluster.md").read_text()
    return [re.search(rf"^```{kind}\n(.*?)^```", text[text.index("## From Python"):], re.M | re.S)[1] for kind in ("dt", "python", "text")]


def plugin():
    folder = os.path.join(os.path.dirname(dtc.__file__), "lib")
    found = [os.path.join(folder, "dtc-mpi.so"), os.path.join(folder, "dtc", "dtc-mpi.so")]
    return any(os.path.exists(path) for path in found)


@unittest.skipUnless(shutil.which("mpirun") and plugin(), "mpirun or the plugin dtc-mpi.so was not found")
class Processes(unittest.TestCase):
    def mpirun(self, count, script, *words, env={}):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "script.py")
            path.write_text(script)
            settings = {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MCA_rmaps_base_oversubscribe": "1",
                        "MCA_mpi_yield_when_idle": "1", "MCA_hwloc_base_binding_policy": "none"}
            return subprocess.run(["mpirun", "-n", str(count), sys.executable, path, *words], capture_output=True, text=True,
                                  timeout=120, env={**os.environ, **env, **{f"OMPI_{k}": v for k, v in settings.items()}})

    def test_page(self):
        program, script, expected = page()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.dt")
            pathlib.Path(path).write_text(program)
            for count in (1, 2, 4):
                done = self.mpirun(count, script, path)
                self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
                if STUBS:
                    done = self.mpirun(count, script, path, "cuda", env=GPUS)
                    self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
            done = self.mpirun(3, script, path)
            self.assertEqual(done.stderr.count("dtc.UsageError: error: the mesh has 4 devices, which 3 processes"), 3, done.stderr)

    def test_errors(self):
        done = self.mpirun(2, ERRORS)
        for rank in (0, 1):
            lines = [line[2:] for line in done.stdout.splitlines() if line.startswith(f"{rank} ")]
            expected = [
                "ProgramError: .*unknown op 'sun'",
                rf"\(\[{rank}\], \[\(2,\)\], 2\)",
                "10.0",
                r"ProgramError: .*argument %x: expected f32\[2\], got f32\[[34]\]",
                "UsageError: .*result y: this process has only some of its shards",
                "ProgramError: .*'expect_close': element .. is 10 where 11 is expected",
                "MachineError: .*an earlier run has failed",
            ]
            self.assertEqual(len(lines), len(expected), done.stdout + done.stderr)
            for line, pattern in zip(lines, expected):
                self.assertRegex(line, pattern)
        self.assertIn("0 \"ProgramError: error: rank 1 on ", done.stdout)

    def test_early_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.savez(pathlib.Path(folder, "w.npz"), w=numpy.float32(0))
            done = self.mpirun(2, EARLY, folder)
        other, own = ([line[2:] for line in done.stdout.splitlines() if line.startswith(f"{r} ")] for r in (0, 1))
        carry = [line for line in own if "carry_over needs" in line]
        self.assertEqual(len(carry), 2, done.stdout + done.stderr)  # of carry_over, and of the next call of all
        own.remove(carry[0])
        self.assertEqual(len(own), len(other), done.stdout + done.stderr)
        failed = 0
        for mine, theirs in zip(own, other):
            if "Error" not in mine:
                self.assertEqual(mine, theirs, done.stdout)
                continue
            failed += 1
            self.assertRegex(theirs, r"Error: .*rank 1 on ")
            words = re.sub(r"^['\"]\w+: (error: )?(rank 1 on \S+: )?", "", mine)[:40]
            self.assertIn(words, theirs)
        self.assertEqual(failed, 11, done.stdout + done.stderr)

    def test_refused_calls_change_nothing(self):
        script = (
            "import dtc, numpy as np\n"
            "p = dtc.init_from_env(threads=1)\n"
            "f = dtc.compile('mesh @m = [a=2]\\nfunc @main(%x: f32[4] @m{a}, %w: f32[4] @m{a}) -> (%w: f32[4] @m{a} {carry = true}) {\\n'\n"
            "                '  %v = add %w, %x\\n  return %v\\n}\\n')\n"
            "one = np.ones(2, np.float32)\n"
            "f.run_shards(one, one)\n"
            "f.carry_over()\n"
            "for n in (3, 3, 2):\n"
            "    try: print(p.rank, f.run_shards(np.ones(n if p.rank == 0 else 2, np.float32), None)[0].tolist(), flush=True)\n"
            "    except dtc.Error as e: print(p.rank, type(e).__name__, flush=True)\n"
            "dtc.finalize()\n")
        done = self.mpirun(2, script)
        for rank in (0, 1):
            lines = [line[2:] for line in done.stdout.splitlines() if line.startswith(f"{rank} ")]
            self.assertEqual(lines, ["ProgramError", "ProgramError", "[3.0, 3.0]"], done.stdout + done.stderr)

    def test_killed_over_tcp(self):
        script = (
            "import os, sys, dtc, numpy as np\n"
            "p = dtc.init_from_env(threads=1, timeout=100)\n"
            "f = dtc.compile('mesh @m = [a=2]\\nfunc @main(%x: f32[4] @m{a}) -> (%s: f32[]) {\\n  %s = sum %x\\n  return %s\\n}\\n')\n"
            "if p.rank == 1: os.kill(os.getpid(), 9)\n"
            "f.run_shards(np.zeros(2, np.float32))\n")
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
        begun = time.time()
        jobs = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
                for rank in (0, 1)]
        err = [job.communicate(timeout=120)[1] for job in jobs]
        self.assertRegex(err[0], "MachineError: error: .*a connection was closed: no answer from rank 1 on ")
        self.assertLess(time.time() - begun, 50)  # long before the time limit

    def test_joined_once(self):
        done = self.mpirun(1, "import dtc\np = dtc.init_from_env()\nprint(p)\nfor call in (dtc.init_from_env, lambda: dtc.compile('', threads=2)):\n"
                              "    try:\n        call()\n    except dtc.UsageError as e:\n        print(e)\ndtc.finalize()\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "rank 0 of 1>\ndtc.init_from_env was called before.*\n.*threads= is given to dtc.init_from_env")


class Variables(unittest.TestCase):
    """torchrun's variables, without MPI."""

    def start(self, count, path, *words, env={}):
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
        started = [subprocess.Popen([sys.executable, path, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env={**os.environ, **env, "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank),
                                         "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}) for rank in range(count)]
        texts = [p.communicate(timeout=120) for p in started]
        return [p.returncode for p in started], texts[0][0], "".join(err for _, err in texts)

    def test_page(self):
        program, script, expected = page()
        with tempfile.TemporaryDirectory() as folder:
            text, path = pathlib.Path(folder, "step.dt"), pathlib.Path(folder, "script.py")
            text.write_text(program)
            path.write_text(script)
            for count in (2, 4):
                codes, out, err = self.start(count, path, text)
                self.assertEqual((codes, out), ([0] * count, expected), err)
                if STUBS:
                    codes, out, err = self.start(count, path, text, "cuda", env=GPUS)
                    self.assertEqual((codes, out), ([0] * count, expected), err)
            if importlib.util.find_spec("torch"):
                done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path, text], capture_output=True, text=True, timeout=120)
                self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)


if __name__ == "__main__":
    unittest.main()
