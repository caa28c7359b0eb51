"""clang-tidy (.clang-tidy) finds nothing. What was clean stays so until it, a header under it or the configuration changes
(remembered in ~/.cache/dtc-tidy, or under $DTC_TIDY_CACHE, so that a second clone has it, too); a whole run gives it a bounded time, changed files first; `test.sh tidy` and CI (CI=true) take all that it needs."""

import hashlib
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CACHE = Path(os.environ.get("DTC_TIDY_CACHE") or Path.home() / ".cache")
SECONDS = float(os.environ.get("DTC_TIDY_SECONDS", "inf" if os.environ.get("CI") else "90"))


class Sources:
    """Hashes of source files together with the tree's headers that they reach."""

    def __init__(self, root, version):
        self.root, self.memory = root, {}
        self.configuration = version.encode() + (root / ".clang-tidy").read_bytes()

    def reached(self, path, seen):
        if path in seen or not (self.root / path).is_file():
            return seen
        seen.add(path)
        if path not in self.memory:
            text = (self.root / path).read_text(errors="replace")
            self.memory[path] = text, re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M)
        for header in self.memory[path][1]:
            self.reached("include/" + header if header.startswith("dtc/") else os.path.dirname(path) + "/" + header, seen)
        return seen

    def key(self, path):
        digest = hashlib.sha256(self.configuration)
        for reached in sorted(self.reached(path, set())):
            digest.update(reached.encode() + b"\0" + self.memory[reached][0].encode() + b"\0")
        return digest.hexdigest()


def in_order(context, paths):
    """Changed files first, the others in an order that differs from commit to commit, so that all get their turn."""
    changed = set(context.run("git", "diff", "--name-only", "HEAD~1").stdout.split())
    changed |= set(context.files("lib", "tools")) - set(context.run("git", "ls-files", "lib", "tools").stdout.split())
    head = context.run("git", "rev-parse", "HEAD").stdout
    return sorted(paths, key=lambda p: (p not in changed, hashlib.sha256((head + p).encode()).digest()))


def check(context):
    tool = next((t for t in ("clang-tidy-19", "clang-tidy-18") if shutil.which(t)), None)
    if not tool:
        context.failed("tidy", "clang-tidy-19 is not installed; scripts/setup.sh installs it")
        return
    commands = context.build / "compile_commands.json"
    compiled = commands.read_text() if commands.exists() else ""
    paths = [p for p in context.files("lib/*.cpp", "tools/*.cpp") if f'"{context.root / p}"' in compiled]
    sources, clean = Sources(context.root, context.run(tool, "--version").stdout), CACHE / "dtc-tidy"
    clean.mkdir(parents=True, exist_ok=True)
    keys = {p: sources.key(p) for p in paths}
    left = in_order(context, [p for p in paths if not (clean / keys[p]).exists()])
    context.passed(len(paths) - len(left))
    deadline = time.monotonic() + (float("inf") if context.only else SECONDS)

    def lint(path):
        return context.run(tool, "--quiet", "-p", context.build, path, limit=300) if time.monotonic() < deadline else None

    unseen = 0
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path, done in zip(left, pool.map(lint, left)):
            if done is None:
                unseen += 1
            elif done.returncode:
                lines = [line for line in done.stdout.splitlines() if ": error:" in line or ": warning:" in line]
                context.failed(f"tidy {path}", "\n".join(lines[:20]) or done.stderr[-2000:])
            else:
                (clean / keys[path]).touch()
                context.passed()
    if unseen:
        context.note(f"{unseen} of {len(paths)} files were left for another run after {SECONDS:.0f} s; "
                     "`scripts/test.sh tidy` looks at all")
