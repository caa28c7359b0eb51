"""The packages of scripts/package.sh work where nothing of dtc or LLVM is: the tarball and the Debian package in a new
Debian system (debootstrap), the wheel in a new virtual environment. Needs root, debootstrap and a package mirror."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = """mesh @m = [d=2]
func @main(%x: f32[64, 32] @m{d, _}, %w: f32[32, 48]) -> (%y: f32[64, 48]) {
  %h = matmul %x, %w
  %y = relu %h
  return %y
}
"""
RUN = ["run", "/tmp/p.dt", "--input", "*=randn(1)", "--check"]


def sources():
    """The mirror that this machine's apt reads, and its release."""
    release = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
    asked = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"], capture_output=True, text=True).stdout
    for line in asked.splitlines():
        site, _, name = line.partition(" ")
        if name == release and "security" not in site:
            return site, release
    return None, release


class System:
    """A new Debian system in a folder."""

    def __init__(self, context, folder):
        self.context, self.folder = context, folder

    def make(self):
        site, release = sources()
        if not site:
            return "apt has no mirror of this system's release"
        shutil.rmtree(self.folder, ignore_errors=True)
        made = self.context.run("debootstrap", "--variant=minbase", "--include=libstdc++6", release, self.folder, site, limit=600)
        return made.returncode and (made.stderr or made.stdout)[-2000:]

    def run(self, *words, limit=120):
        """Within the system, with /proc, which tells dtc where it is."""
        inner = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return self.context.run("unshare", "--mount", "sh", "-c", inner, self.folder, "env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
                                "HOME=/root", "DEBIAN_FRONTEND=noninteractive", *words, limit=limit)

    def write(self, path, data):
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(data) if isinstance(data, str) else shutil.copy(data, target)


def judge(context, name, done, *wanted):
    text = done.stdout + done.stderr
    missing = [w for w in wanted if w not in text]
    if done.returncode == 0 and not missing:
        context.passed()
    else:
        context.failed(f"packages: {name}", f"exit code {done.returncode}, without {missing}: {text[-1500:]}")


def tarball(context, system, file):
    system.write("/tmp/dtc.tar.gz", file)
    judge(context, "unpacking", system.run("sh", "-c", "mkdir /opt/dtc && tar -xzf /tmp/dtc.tar.gz -C /opt/dtc --strip-components=1"))
    judge(context, "tarball: run", system.run("/opt/dtc/bin/dtc", *RUN), "check y: ok")
    judge(context, "tarball: version", system.run("/opt/dtc/bin/dtc", "--version"), "dtc ", "LLVM ", "oneDNN ")
    shutil.rmtree(system.folder / "opt/dtc")


def debian(context, system, file):
    system.write(f"/tmp/{file.name}", file)
    judge(context, "apt-get update", system.run("apt-get", "update", limit=300))
    judge(context, "deb: install", system.run("apt-get", "install", "-y", "--no-install-recommends", f"/tmp/{file.name}", limit=600))
    judge(context, "deb: run", system.run("dtc", *RUN), "check y: ok")
    judge(context, "deb: by its own name", system.run("dtc-compiler", "--version"), "dtc ")
    pages = 'for f in $(dpkg -L dtc-compiler | grep -E "man1/.*[.]1([.]gz)?$"); do gzip -cdf "$f" | grep -q "^[.]TH" || exit 1; done'
    judge(context, "deb: manual pages", system.run("sh", "-c", f"dpkg -L dtc-compiler | grep man1/dtc-compiler && {pages}"), "man1/dtc-compiler")
    complete = ("source /usr/share/bash-completion/completions/dtc-compiler; COMP_WORDS=(dtc-compiler ru); COMP_CWORD=1; "
                "_dtc dtc-compiler ru dtc-compiler; echo \"${COMPREPLY[@]}\"")
    judge(context, "deb: completion", system.run("bash", "-c", complete), "run")
    judge(context, "deb: beside device-tree-compiler",
          system.run("apt-get", "install", "-y", "--no-install-recommends", "device-tree-compiler", limit=300))
    judge(context, "deb: /usr/bin/dtc of device-tree-compiler", system.run("dtc", "--version"), "Version: DTC")
    judge(context, "deb: run beside it", system.run("dtc-compiler", *RUN), "check y: ok")
    judge(context, "deb: remove", system.run("apt-get", "remove", "-y", "dtc-compiler", limit=300))
    judge(context, "deb: what it leaves", system.run("sh", "-c", "dtc --version && ! ls -d /usr/lib/dtc /usr/bin/dtc-compiler"), "Version: DTC")
    judge(context, "deb: remove device-tree-compiler", system.run("apt-get", "purge", "-y", "device-tree-compiler", limit=300))
    judge(context, "deb: install where the name is free",
          system.run("sh", "-c", f"dpkg -i /tmp/{file.name} && readlink /usr/bin/dtc && apt-get remove -y dtc-compiler && "
                                 "[ ! -e /usr/bin/dtc ] && [ ! -L /usr/bin/dtc ] && echo gone"), "dtc-compiler", "gone")


def wheel(context, folder, file):
    shutil.rmtree(folder, ignore_errors=True)
    judge(context, "wheel: environment", context.run(sys.executable, "-m", "venv", folder, limit=120))
    judge(context, "wheel: install", context.run(folder / "bin/pip", "install", "--quiet", file, limit=300))
    program = folder / "p.dt"
    program.write_text(PROGRAM)
    judge(context, "wheel: the command", context.run(folder / "bin/dtc", "run", program, "--input", "*=randn(1)", "--check"), "check y: ok")
    script = ("import dtc, numpy as np, sys\n"
              "f = dtc.compile(sys.argv[1])\n"
              "x, w = np.ones((64, 32), np.float32), np.ones((32, 48), np.float32)\n"
              "assert (f(x, w) == 32).all() and f.mesh == {'d': 2}\n"
              "print('called')\n")
    judge(context, "wheel: the module", context.run(folder / "bin/python", "-c", script, program), "called")
    script = ("import dtc, os\n"
              "assert os.path.exists(dtc.get_include() + '/dtc/dtc.h') and os.path.exists(dtc.get_library_dir() + '/libdtc.so.1')\n"
              "assert os.path.exists(dtc.get_cmake_dir() + '/dtcConfig.cmake')\n"
              "assert os.path.exists(dtc.get_docs() + '/docs/python.md') and os.path.exists(dtc.get_docs() + '/examples/mlp.dt')\n"
              "print(dtc.get_pkgconfig_dir())\n")
    if shutil.which("mpicxx"):
        judge(context, "wheel: a plugin for MPI", context.run(folder / "bin/dtc", "plugin", "build", "mpi", limit=120), "built ")
        done = context.run(folder / "bin/dtc", "run", program, "--comm", "mpi", "--input", "*=randn(1)", "--check")
        judge(context, "wheel: a run with MPI", done, "check y: ok")
    judge(context, "wheel: files for C", context.run(folder / "bin/python", "-c", script), "pkgconfig")
    limit = 50_000_000
    if file.stat().st_size < limit:
        context.passed()
    else:
        context.failed("packages: wheel", f"{file.stat().st_size} bytes, more than {limit}")


def check(context):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        context.failed("packages", "this check needs root and debootstrap (apt-get install debootstrap)")
        return
    out = context.root / "build" / "packages"
    shutil.rmtree(out, ignore_errors=True)
    made = context.run("scripts/package.sh", limit=3600)
    if made.returncode:
        context.failed("packages: scripts/package.sh", (made.stdout + made.stderr)[-3000:])
        return
    one = {kind: next(iter(sorted(out.glob(pattern))), None) for kind, pattern in
           (("deb", "*.deb"), ("tarball", "*.tar.gz"), ("wheel", "*.whl"))}
    for kind, file in one.items():
        if not file:
            context.failed("packages", f"scripts/package.sh made no {kind}")
            return
        context.note(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    system = System(context, out / "system")
    if wrong := system.make():
        context.failed("packages: debootstrap", wrong)
        return
    system.write("/tmp/p.dt", PROGRAM)
    tarball(context, system, one["tarball"])
    debian(context, system, one["deb"])
    wheel(context, out / "venv", one["wheel"])
    shutil.rmtree(out, ignore_errors=True)
