"""clang-tidy (.clang-tidy) has no findings in lib and tools. It looks at the translation units of the build, several sources
each, because it takes most of its time for headers. A clean unit is skipped until one of its sources, one of their headers
or the configuration changes (recorded in ~/.cache/dtc-tidy, or under $DTC_TIDY_CACHE, shared by clones of the tree)."""

import hashlib
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CACHE = Path(os.environ.get("DTC_TIDY_CACHE") or Path.home() / ".cache")


class Sources:
    """Hashes of source files together with the headers of the tree that they include."""

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
            floor = "/".join(path.split("/")[:2])  # private headers are named from the root of their floor
            for folder in ["include"] if header.startswith("dtc/") else [os.path.dirname(path), floor]:
                self.reached(f"{folder}/{header}", seen)
        return seen

    def key(self, paths):
        digest = hashlib.sha256(self.configuration)
        for reached in sorted(set().union(*(self.reached(path, set()) for path in paths))):
            digest.update(reached.encode() + b"\0" + self.memory[reached][0].encode() + b"\0")
        return digest.hexdigest()


def units(context, build):
    """The translation units of the build: {file: its sources, as paths relative to the root}."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        file = Path(command["file"])
        sources = re.findall(r'#include "(.*)"', file.read_text()) if file.suffix == ".cxx" else [str(file)]
        own = [os.path.relpath(s, context.root) for s in sources if Path(s).is_relative_to(context.root)]
        own = [s for s in own if s.startswith(("lib/", "tools/"))]
        if own:
            found[str(file)] = own
    return found


def check(context):
    tool = next((t for t in ("clang-tidy-19", "clang-tidy-18") if shutil.which(t)), None)
    if not tool:
        context.failed("tidy", "clang-tidy-19 is not installed; scripts/setup.sh installs it")
        return
    build = context.build.parent / "tidy"
    done = context.run("cmake", "--preset", "release", "-B", build, "-DDTC_PRECOMPILED=OFF", "-DDTC_TESTS=OFF", limit=300)
    if done.returncode:
        context.failed("tidy", f"cmake: {done.stderr[-2000:]}")
        return
    sources, clean = Sources(context.root, context.run(tool, "--version").stdout), CACHE / "dtc-tidy"
    clean.mkdir(parents=True, exist_ok=True)
    found = units(context, build)
    unseen = set(context.files("lib/*.cpp", "tools/*.cpp")) - set().union(*found.values())
    for path in sorted(unseen):
        context.failed(f"tidy {path}", "is in no translation unit of the build")
    keys = {unit: sources.key(paths) for unit, paths in found.items()}
    left = [unit for unit in found if not (clean / keys[unit]).exists()]
    context.passed(sum(len(found[unit]) for unit in found if unit not in left))

    def lint(unit):
        return context.run(tool, "--quiet", f"--config-file={context.root}/.clang-tidy", "-p", build, unit, limit=600)

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for unit, done in zip(left, pool.map(lint, left)):
            if done.returncode:
                lines = [line for line in done.stdout.splitlines() if ": error:" in line or ": warning:" in line]
                context.failed(f"tidy {Path(unit).stem}", "\n".join(lines[:20]) or done.stderr[-2000:])
            else:
                (clean / keys[unit]).touch()
                context.passed(len(found[unit]))
