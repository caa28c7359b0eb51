"""1,000 random programs over 4 processes: no deadlock, and the bits of one process. `mpi` runs a few of them."""

import tempfile
from pathlib import Path

from . import mpi

COUNT, EACH = 1000, 50  # programs, and those of one mpirun: in the case of a deadlock, --comm-timeout (60 s) ends it


def run(runs, first, count):
    binary = runs.context.build / "bin" / "dtc-unit"
    code, out, err = runs.mpirun("-n", 4, "-x", "GTEST_COLOR=no", "-x", f"DTC_FIRST_SEED={first}", "-x", f"DTC_SEEDS={count}",
                                 binary, "--gtest_filter=ProcessPrograms.*", limit=900)
    good = code == 0 and "[  PASSED  ] 1 test" in out and "SKIPPED" not in out and "FAILED" not in out
    runs.expect(f"random programs {first} to {first + count - 1}", good, f"code {code}\n{out[-3000:]}{err[-1000:]}")


def check(context):
    if not mpi.available(context):
        context.note("no random programs over processes: there is no mpirun, or the build has no plugin dtc-mpi.so")
        return
    with tempfile.TemporaryDirectory() as made:
        runs = mpi.Runs(context, Path(made))
        for first in range(1, COUNT + 1, EACH):
            run(runs, first, EACH)
