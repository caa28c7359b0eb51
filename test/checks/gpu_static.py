"""The kernels of models and of the rows of bench/gpu.py, compiled for sm_90a, have none of the defects that make kernels
slow, except for the reviewed ones in test/gpu-static-exceptions.txt. Needs NVRTC, and no GPU.

The questions are those of `dtc compile --stats` (docs/gpu.md): each complaint is a line `CASE: SUBJECT: KIND`. An exception
that no longer applies is a failure, too. Here the models have two layers and the rows one width; gpu-static-all runs all.
"""

import fnmatch
import importlib
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

EXCEPTIONS = "test/gpu-static-exceptions.txt"
KINDS = {"local-memory", "division", "idle-threads", "narrow", "strided", "grid", "in-flight", "matmul-calls", "passes", "unknown"}
# One block for each of few rows: a program that has a defect on purpose.
BAD = "func @main(%x: f32[4, 65000]) -> (%y: f32[4, 65000]) {\n  %y = cumsum %x {dim = 1}\n  return %y\n}\n"


def complaints(report):
    """(subject, kind, text) of a report of `dtc compile --stats --json`."""
    gpu = report["gpu"]
    for kernel in gpu["kernels"]:
        for complaint in kernel["complaints"]:
            yield kernel["kernel"], complaint["kind"], complaint["text"]
        if not kernel["analyzed"]:
            yield kernel["kernel"], "unknown", "its PTX was not found"
    for matmul in gpu["matmuls"]:
        if matmul["calls"] > 1:
            yield matmul["shape"], "matmul-calls", f"{matmul['calls']} library calls for one matmul"
    for value in gpu["passes"]:
        subject = f"{value['writer']} -> {', '.join(value['readers']) or 'a result'}"
        yield subject, "passes", f"{value['uses']} x {value['type']}: {value['passes']} passes, {value['least']} needed"


def read_exceptions(text):
    """[(case, subject, kind, line number)], each below a comment with the reason."""
    found, reason = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            reason = True
        elif not line.strip():
            reason = False
        else:
            parts = re.split(r":\s+", line.strip())
            if len(parts) != 3 or parts[2] not in KINDS:
                raise ValueError(f"line {number}: expected CASE: SUBJECT: KIND, got '{line}'")
            if not reason:
                raise ValueError(f"line {number}: '{line}' has no reason: write it in a comment above")
            found.append((*parts, number))
    return found


def matches(exception, case, subject, kind):
    return exception[2] == kind and fnmatch.fnmatchcase(case, exception[0]) and fnmatch.fnmatchcase(subject, exception[1])


def judge(found, exceptions, cases):
    """What is wrong: complaints without an exception, and exceptions for these cases that match nothing."""
    used = set()
    for case, subject, kind, text in found:
        fits = [e for e in exceptions if matches(e, case, subject, kind)]
        used.update(fits)
        if not fits:
            yield f"{case}: {subject}: {kind}", text
    for e in exceptions:
        if e not in used and any(fnmatch.fnmatchcase(case, e[0]) for case in cases):
            yield f"{EXCEPTIONS}:{e[3]}", f"'{': '.join(e[:3])}' no longer applies: remove it"


def finds_defects(context):
    """Whether a program with a defect gets its complaint (those of hand-written reports: itself.py)."""
    found = [kind for _, kind, _ in complaints(analyze(context, BAD))]
    if "grid" not in found:
        context.failed("gpu-static", f"four blocks for 132 multiprocessors gave {found}")
    context.passed()


def analyze(context, program):
    done = context.run(context.dtc, "compile", "-", "--target", "sm_90a", "--stats", "--json", text=program, limit=600)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def programs(context, everything):
    """{case: program}: of rows that are the same program, the first."""
    sys.path.insert(0, str(context.root / "bench"))
    bench = importlib.import_module("gpu_cases")
    found = {}
    for model in bench.model_rows(not everything):
        made = context.run(context.dtc, "model", *model.arguments.split(), limit=120)
        if made.returncode:
            raise RuntimeError(made.stderr[-2000:])
        found[f"{model.shape['kind']} step, {model.shape['layers']} layers"] = made.stdout
    for row in bench.kernel_rows(not everything):
        text = row.program()[0]
        if text not in found.values():
            found[row.name] = text
    return found


def check(context, everything=False):
    if not context.has_nvrtc():
        context.note("NVRTC is not installed: no kernel was compiled for a GPU")
        return context.passed()
    try:
        finds_defects(context)
        cases = programs(context, everything)
        exceptions = read_exceptions((context.root / EXCEPTIONS).read_text())
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            reports = list(pool.map(lambda text: analyze(context, text), cases.values()))
    except (RuntimeError, ValueError) as error:
        return context.failed("gpu-static", str(error))
    found = [(case, *complaint) for case, report in zip(cases, reports) for complaint in complaints(report)]
    wrong = list(judge(found, exceptions, list(cases)))
    for name, why in wrong:
        context.failed(name, why)
    kernels = sum(len(report["gpu"]["kernels"]) for report in reports)
    context.note(f"{kernels} kernels of {len(cases)} programs, {len(found)} known complaints")
    context.passed(kernels if not wrong else 0)
