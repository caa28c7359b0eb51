"""The tree's C++ files are formatted with clang-format."""

import shutil


def check(context):
    tool = "clang-format-19"  # other versions format some constructs differently
    if not shutil.which(tool):
        context.note(f"{tool} is not installed (Ubuntu 24.04 without its updates has only 18): the formatting is not checked")
        return
    files = context.files("lib/*.cpp", "lib/*.h", "include/dtc/*.h", "tools/*.cpp", "tools/*.h", "test/*.cpp")
    if not files:
        return
    done = context.run(tool, "--dry-run", "-Werror", *files, limit=300)
    bad = {line.split(":")[0] for line in done.stderr.splitlines() if ": error: " in line}
    for path in sorted(bad):
        context.failed(f"format {path}", f"`{tool} -i {path}` formats it")
    if done.returncode and not bad:
        context.failed("format", done.stderr[-1000:])
    context.passed(len(files) - len(bad))
