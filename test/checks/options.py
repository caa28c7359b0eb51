"""Every verb rejects each class of invalid option with dtc's own message, not CLI11's, and exit code 2."""

import re

RAW = re.compile(r" not in \{|At Most|At Least|required but received|Could not convert|is required|arguments were not expected|"
                 r"required .* missing|not in range|allowed flag override|TEXT:|INT:|UINT:|FLOAT:")


def options(shown):
    """(name, type) of each flag in a page of help; type is "" for those without a value."""
    for line in shown.splitlines():
        found = re.match(r"  (-[^ ]+)((?: [^ ]+)*?)(?:  +|$)", line)
        if found:
            name = found[1].split(",")[-1]
            yield name, found[2].strip()


def wrong_uses(name, kind):
    if not kind:
        return [[name + "=1x"]] if name.startswith("--") and name not in ("--help", "--help-all") else []
    uses = [[name]]  # no value
    if "|" in kind or ".." in kind or kind.split()[0] in ("N", "SECONDS"):
        uses.append([name, "w#ong"])
    return uses


def check(context):
    top = context.run(context.dtc, "--help").stdout
    for verb in sorted(set(re.findall(r"^  ([a-z]{3,})  ", top, re.M))):
        shown = context.run(context.dtc, verb, "--help-all")
        if shown.returncode:
            context.failed(f"options {verb}", f"--help-all ends with {shown.returncode}")
            continue
        uses = [["--no-such-flag"]]
        if verb not in ("view", "explain", "check"):  # which take names after the file
            uses.append(["a.dt", "b.dt", "c.dt"])
        for name, kind in options(shown.stdout):
            uses += wrong_uses(name, kind)
        for use in uses:
            done = context.run(context.dtc, verb, *use)
            line = done.stderr.splitlines()[0] if done.stderr else ""
            told = line.startswith("error: ") and line.endswith("[command-line]")
            if done.returncode == 2 and told and not RAW.search(line):
                context.passed()
            else:
                context.failed(f"options {verb} {' '.join(use)}", f"code {done.returncode}: {line[:200]}")
