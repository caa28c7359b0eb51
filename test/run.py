#!/usr/bin/env python3
"""Runs the tests of a build: the checks over the tree (test/checks), the unit tests, lit, and a little fuzzing.

With arguments, only those: an area (a check's name, `unit`, `lit`, or a folder of test/ or test/unit in any case), or the
path of a test or of a folder of tests.
The last line is `N passed, N failed`; the exit code is 0 only if nothing failed."""

import argparse
import concurrent.futures
import glob
import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = ROOT / "test"
# In the order of cost: what fails fast fails first.
CHECKS = ["itself", "layers", "opnames", "ptx", "size", "format", "roundtrip", "levels", "unitaxes", "docs", "generated", "kinds", "options", "recipes", "capi", "mpi", "nccl-processes", "sequences", "edited", "coverage", "gpu-static", "linear", "report-pages", "memory", "mutation", "tidy"]
ON_REQUEST = ["fuzz", "gpu-static-all", "mpi-faults", "mpi-hosts", "mpi-random", "packages"]  # too long for a run of everything, or more than a build is needed
# Areas that are no folder: what they take of lit and of the unit tests, as paths under test/ and test/unit/.
GROUPS = {
    "sharding": {  # the rules and their proof, propagation, partitioning, changes of sharding; under five minutes
        "lit": ["Check/rules.test", "Check/claims.test", "Check/claims-outside.test",
                "Check/claims-samples.test", "Check/claims-nonfinite.test", "Check/nonfinite", "Passes/propagate", "Passes/partition",
                "Passes/optimize-collectives", "IR/shardings-dim-style.dt", "IR/shardings-mesh-style.dt",
                "IR/errors-shardings.dt", "Report"],
        "unit": ["Sharding/", "Ops/HomomorphismTest.cpp", "Check/RuleProverTest.cpp", "Passes/PartitionTest.cpp",
                 "Passes/PendingCutTest.cpp", "Passes/PoliciesTest.cpp"],
    },
}
BEFORE_LIT = ["itself", "layers", "opnames", "ptx", "size", "format"]


class Context:
    """What a check needs to know, and where it reports: `passed` and `failed` count, `note` only says."""

    def __init__(self, build, only):
        self.root, self.build, self.only = ROOT, build, only
        self.dtc = build / "bin" / "dtc"
        self.passes = self.failures = 0

    def passed(self, count=1):
        self.passes += count

    def failed(self, name, why):
        self.failures += 1
        print(f"FAIL: {name}: {why}", flush=True)

    def note(self, text):
        print(f"      {text}", flush=True)

    def files(self, *patterns):
        """The tree's own files (tracked, or new and not ignored) that match, as paths relative to the root."""
        command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
        asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if asked.returncode:
            sys.exit(f"test.sh: the tests need a git clone (they ask git which files are the tree's): {asked.stderr}")
        found = asked.stdout.splitlines()
        return sorted({f for f in found if (ROOT / f).is_file()})

    def has_nvrtc(self):
        folders = ["/usr/local/cuda*/lib*", "/usr/lib/*", *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        return any(glob.glob(f"{folder}/libnvrtc.so*") for folder in folders if folder)

    def run(self, *command, text=None, limit=60, cwd=ROOT):
        """The finished process; its returncode is 137 if the time limit struck."""
        try:
            return subprocess.run([str(c) for c in command], input=text, cwd=cwd, capture_output=True, text=True,
                                  errors="replace", timeout=limit)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 137, "", f"stopped after {limit} s")


def run_unit(context, parts=None):
    """All unit tests, or those of `parts`: folders ("Sharding/") and files under test/unit."""
    binary = context.build / "bin" / "dtc-unit"
    sources = context.files("test/unit/*.cpp")
    if parts:
        sources = [s for s in sources if s.startswith(tuple(f"test/unit/{part}" for part in parts))]
    if not sources:
        return
    if not binary.exists():
        context.failed("unit", f"{binary} was not built, but there are unit tests")
        return
    command = [binary, "--gtest_brief=1"]
    if parts:
        suites = set()
        for source in sources:
            text = (ROOT / source).read_text()
            suites |= set(re.findall(r"^\s*(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)", text, re.M))
        command.append("--gtest_filter=" + ":".join(f"{p}{s}{q}.*" for s in sorted(suites)
                                                   for p in ("", "*/") for q in ("", "/*")))
    shards = min(os.cpu_count() or 1, 8)
    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        list(pool.map(lambda shard: run_unit_shard(context, command, shard, shards), range(shards)))


def run_unit_shard(context, command, shard, shards):
    """GoogleTest's share of the tests of `command`; where kernels are not yet cached, all of them take minutes."""
    report = context.build / f"unit-{shard}.json"
    report.unlink(missing_ok=True)
    done = context.run("env", f"GTEST_TOTAL_SHARDS={shards}", f"GTEST_SHARD_INDEX={shard}", *command,
                       f"--gtest_output=json:{report}", limit=1800)
    if not report.exists():
        context.failed("unit", f"dtc-unit ended with code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return
    for suite in json.loads(report.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            failures = case.get("failures")
            if failures:
                context.failed(f"unit {suite['name']}.{case['name']}", failures[0]["failure"])
            else:
                context.passed()
    if done.returncode not in (0, 1):
        context.failed("unit", f"dtc-unit ended with code {done.returncode}\n{done.stderr[-3000:]}")


def run_lit(context, folders=("",)):
    paths = [str(TEST / f) for f in folders]
    report = context.build / "lit.json"
    report.unlink(missing_ok=True)
    done = context.run(context.build / "dtc-lit", "-q", "--output", report, *paths, limit=1800)
    if not report.exists():
        context.failed("lit", f"lit ended with code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return
    skipped = []
    for test in json.loads(report.read_text())["tests"]:
        if test["code"] in ("PASS", "XFAIL", "FLAKYPASS"):
            context.passed()
        elif test["code"] == "UNSUPPORTED":
            skipped.append(test["name"])
        else:
            context.failed(test["name"], test["code"] + "\n" + "\n".join(test["output"].splitlines()[-60:]))
    if skipped:
        context.note(f"{len(skipped)} tests did not run: they ask for what this machine lacks "
                     f"({', '.join(s.split(' :: ')[-1] for s in skipped[:4])}{', …' if len(skipped) > 4 else ''})")


def folders_of(base):
    skip = {"unit", "fuzz", "checks", "tools", "__pycache__"} if base == TEST else {"__pycache__"}
    return {p.name.lower(): p.name for p in sorted(base.iterdir()) if p.is_dir() and p.name not in skip}


def run_check(context, name):
    importlib.import_module(f"checks.{name.replace('-', '_')}").check(context)


def path_stage(context, path):
    """(title, action, unit tests?) of a path below test/, or nothing where there is no such test."""
    full = next((p.resolve() for p in (Path.cwd() / path, ROOT / path) if p.exists()), None)
    if "/" not in path or not full or not full.is_relative_to(TEST):
        return None
    name = str(full.relative_to(TEST))
    if name.startswith("unit/"):
        part = name.removeprefix("unit/") + ("/" if full.is_dir() else "")
        return path, lambda: run_unit(context, (part,)), True
    if name.startswith("checks/"):
        return path, lambda: run_check(context, full.stem), False
    return path, lambda: run_lit(context, (name,)), False


def targets(areas):
    """What has to be built for them; nothing stands for everything."""
    stages = [path_stage(None, a) for a in areas]
    if not areas or not all(stages):
        return []
    return ["dtc", "dtc-stubs"] + ["dtc-unit"] * any(unit for _, _, unit in stages)


def stages(context, areas):
    """(title, action) in the order in which they run."""
    lit, unit = folders_of(TEST), folders_of(TEST / "unit") if (TEST / "unit").is_dir() else {}
    if not areas:
        for name in BEFORE_LIT:
            yield name, lambda name=name: run_check(context, name)
        yield "unit", lambda: run_unit(context)
        yield "lit", lambda: run_lit(context)
        for name in CHECKS:
            if name not in BEFORE_LIT:
                yield name, lambda name=name: run_check(context, name)
        return
    for given in areas:
        area = given.lower()
        if stage := path_stage(context, given):
            yield stage[:2]
        elif area in GROUPS:
            group = GROUPS[area]
            yield f"unit {area}", lambda group=group: run_unit(context, group["unit"])
            yield f"lit {area}", lambda group=group: run_lit(context, group["lit"])
        elif area in CHECKS + ON_REQUEST:
            yield area, lambda area=area: run_check(context, area)
        elif area == "unit":
            yield area, lambda: run_unit(context)
        elif area == "lit":
            yield area, lambda: run_lit(context)
        elif area in lit or area in unit:
            if area in unit:
                yield f"unit {unit[area]}", lambda area=area: run_unit(context, (unit[area] + "/",))
            if area in lit:
                yield f"lit {lit[area]}", lambda area=area: run_lit(context, (lit[area],))
        else:
            known = sorted({*CHECKS, *ON_REQUEST, *GROUPS, "unit", "lit", *lit, *unit})
            sys.exit(f"test.sh: '{given}' is neither a path below test/ nor an area; the areas are: {' '.join(known)}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--build", type=Path, default=ROOT / "build/release")
    options.add_argument("--list", action="store_true", help="name the areas")
    options.add_argument("--targets", action="store_true", help="name what has to be built for these tests")
    options.add_argument("areas", nargs="*", metavar="AREA|PATH")
    given = options.parse_args()
    sys.path.insert(0, str(TEST))
    sys.dont_write_bytecode = True
    if given.list:
        unit = folders_of(TEST / "unit") if (TEST / "unit").is_dir() else {}
        print("\n".join(sorted({*CHECKS, *ON_REQUEST, *GROUPS, "unit", "lit", *folders_of(TEST), *unit})))
        return 0
    if given.targets:
        print(" ".join(targets(given.areas)))
        return 0
    os.environ.setdefault("XDG_CACHE_HOME", str((ROOT / given.build / "test/cache").resolve()))
    begun = time.monotonic()
    context = Context((ROOT / given.build).resolve(), only=bool(given.areas))
    for title, action in stages(context, given.areas):
        print(f"== {title}", flush=True)
        before, start = (context.passes, context.failures), time.monotonic()
        action()
        passes, failures = context.passes - before[0], context.failures - before[1]
        print(f"      {passes} passed, {failures} failed ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{time.monotonic() - begun:.0f} s")
    print(f"{context.passes} passed, {context.failures} failed")
    return 1 if context.failures or not context.passes else 0


if __name__ == "__main__":
    sys.exit(main())
