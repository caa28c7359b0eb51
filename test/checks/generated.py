"""The generated pages of docs/, and the functions that build ops, are up to date."""

PAGES = {"docs/ops.md": "opt --ops-page", "include/dtc/Ops/OpFunctions.h": "opt --op-functions"}


def check(context):
    for name, flag in PAGES.items():
        done = context.run(context.dtc, *flag.split())
        page = context.root / name
        if done.returncode:
            context.failed(f"generated {name}", f"`dtc {flag}` ends with {done.returncode}: {done.stderr[-500:]}")
        elif not page.exists() or page.read_text() != done.stdout:
            context.failed(f"generated {name}", f"is out of date; run `dtc {flag} > {name}`")
        else:
            context.passed()
