"""The prover reports every mutated rule except those in a reviewed list (test/mutants-reviewed.txt).

Every tenth op, or all of them if the check is named: `scripts/test.sh mutation`."""

import fnmatch
import json

REVIEWED = "test/mutants-reviewed.txt"


def reviewed_patterns(context):
    """(patterns of ops, pattern of the mutation) per line; the reason is in the comment above."""
    patterns = []
    for line in (context.root / REVIEWED).read_text().splitlines():
        if line and not line.startswith("#"):
            ops, _, change = line.partition(": ")
            patterns.append((ops.split(), change))
    return patterns


def check(context):
    patterns = reviewed_patterns(context)
    used = set()

    def is_reviewed(op, change):
        for ops, pattern in patterns:
            if any(fnmatch.fnmatchcase(op, o) for o in ops) and fnmatch.fnmatchcase(change, pattern):
                used.add(pattern)
                return True
        return False

    command = [context.dtc, "check", "--rules", "--mutate", "--json"]
    if not context.only:
        page = context.run(context.dtc, "opt", "--ops-page").stdout
        names = [line[5:-1] for line in page.splitlines() if line.startswith("### `")]
        for name in names[3::10]:
            command += ["--op", name]
    done = context.run(*command, limit=1800)
    if done.returncode:
        context.failed("mutation", f"ends with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return
    report = json.loads(done.stdout)
    found = [(kind, s["claim"], s["why"]) for kind in ("silent", "sound") for s in report[kind]]
    new = [f"{op}: {text} ({kind})" for kind, op, text in found if not is_reviewed(op, text)]
    for text in new[:40]:
        context.failed("mutation", f"a mutated rule is not reported: {text}")
    if context.only:
        for ops, pattern in patterns:
            if pattern not in used:
                context.failed("mutation", f"{REVIEWED} has an unused pattern: {pattern}")
    if not new:
        context.passed(report["caught"])
    context.note(f"{report['mutants']} mutated rules: {report['caught']} reported, {len(found)} explained in {REVIEWED}")
