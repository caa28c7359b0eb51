"""The prover reports every changed rule but for those that a reviewed list explains (test/mutants-reviewed.txt).

Every tenth op, or all of them where the check is named: `scripts/test.sh mutation`."""

import json

REVIEWED = "test/mutants-reviewed.txt"


def check(context):
    reviewed = {}
    for number, line in enumerate((context.root / REVIEWED).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        op, _, text = line.partition(": ")
        reviewed.setdefault(op, set()).add(text)
    command = [context.dtc, "check", "--rules", "--mutate", "--json"]
    ops = context.run(context.dtc, "opt", "--ops-page").stdout
    names = [line[5:-1] for line in ops.splitlines() if line.startswith("### `")]
    if not context.only:
        for name in names[3::10]:
            command += ["--op", name]
    done = context.run(*command, limit=1800)
    if done.returncode:
        context.failed("mutation", f"ends with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return
    report = json.loads(done.stdout)
    found = [(kind, s["claim"], s["why"]) for kind in ("silent", "sound") for s in report[kind]]
    new = [f"{kind}: {op}: {text}" for kind, op, text in found if text not in reviewed.get(op, ())]
    for text in new[:40]:
        context.failed("mutation", f"a changed rule is not reported: {text}")
    if not new:
        context.passed(report["caught"])
    context.note(f"{report['mutants']} changed rules: {report['caught']} reported, "
                 f"{len(found)} of {REVIEWED}")
