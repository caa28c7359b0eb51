"""Correctness on a GPU: every program against the reference evaluator, and NCCL (bench/gpu.py)."""

import concurrent.futures
import pathlib

import gpu_diagnosis

TOP = pathlib.Path(__file__).resolve().parent.parent


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
    """Runs all that have not passed before; reports failures, each cause in full once. Cases skipped for lack of time are reported and do not count
    as passed. Returns the failures."""
    passed = report.found.get("right", {}).get("passed", {})
    results, skipped, hung, told = [], [], [], set()
    todo = [case for case in cases if case.name not in passed]
    if len(todo) < len(cases):
        print(f"right: {len(cases) - len(todo)} passed before", flush=True)

    def hopeless():
        return len(results) >= ALIKE and all(r["code"] for r in results) and len(gpu_diagnosis.causes(results)) == 1

    def so_far():
        now = {r["case"]: round(r["seconds"], 1) for r in results if not r["code"]}
        return {"passed": {**passed, **now}, "failed": [r for r in results if r["code"]], "no_time": sorted(skipped), "seconds": clock.spent()}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = {}
        for case in todo:
            waiting[pool.submit(lambda c=case: check_one(dtc, c, clock, hung) if clock.left() > 5 and not hopeless() else None)] = case
        for done in concurrent.futures.as_completed(waiting):
            found = done.result()
            if found is None:
                skipped.append(waiting[done].name)
                continue
            results.append(found)
            if len(results) % 25 == 0:
                print(f"right: {len(results)} of {len(todo)} ({clock.spent():.0f} s)", flush=True)
                report.write(right=so_far())
            cause = gpu_diagnosis.cause(found["why"]) if found["code"] else ""
            if found["code"] and cause not in told and len(told) < 8:
                print(f"FAIL {found['case']}\n  {found['command']}\n  " + found["why"][:500].replace("\n", "\n  "), flush=True)
            told.add(cause)
    out = so_far()
    print(f"right: {len(out['passed'])} passed, {len(out['failed'])} failed, {len(skipped)} skipped for lack of time ({clock.spent():.0f} s)", flush=True)
    if hopeless():
        print(f"right: the first {len(results)} failed with one cause; the others were not run", flush=True)
    report.write(right=out)
    return out["failed"]


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
