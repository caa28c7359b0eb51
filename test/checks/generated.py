"""The pages of docs/ that are made from tables are what the tables say now."""

PAGES = {"docs/ops.md": "opt --ops-page", "docs/passes.md": "opt --passes-page", "docs/errors.md": "help errors-page"}


def check(context):
    for name, flag in PAGES.items():
        done = context.run(context.dtc, *flag.split())
        page = context.root / name
        if done.returncode:
            context.failed(f"generated {name}", f"`dtc {flag}` ends with {done.returncode}: {done.stderr[-500:]}")
        elif not page.exists() or page.read_text() != done.stdout:
            context.failed(f"generated {name}", f"is not what the table says: `dtc {flag} > {name}`")
        else:
            context.passed()
