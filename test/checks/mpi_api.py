"""The C API over several processes: docs/cluster.md's program, errors of one process (mpi_api.c), and a plugin
that dtc builds. Part of the check mpi."""

import os
import re
import shutil

from .capi import compiler

# The calls of each process and how they end: 1, 2 and 3 are the statuses of dtc.h. The second string is in all messages.
ERRORS = {
    "text": ("compile 1, compile 0, run 0, leave 0", "unknown keyword 'retur'"),
    "other": ("compile 2, compile 0, run 0, leave 0", r"do not have the same program\\n  rank 0 on \S+ p.dt:3:.*1.0\\n  rank 1 on \S+ p.dt:3:.*2.0"),
    "shape": ("compile 0, run 1, run 0, leave 0", r"argument %x: expected f32\[2\], got f32\[3\]"),
    "early": ("compile 0, run 2, run 2, run 2, run 2, run 2, compile 2, run 2, run 0, leave 0", "."),
    "whole": ("compile 0, run 2, run 0, leave 0", "result y: this process has only some of its shards"),
    "late": ("compile 0, run 0, leave 0, run 3, carry 3", "this process has left the others"),
    "check": ("compile 0, run 0, run 1, run 3, leave 3", "'expect_close': element .. is 10 where 11 is expected"),
}


def build(runs, source, name, api="dtc"):
    library = runs.context.build / "bin"
    done = runs.context.run(compiler(), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{runs.context.root}/include",
                            source, f"-L{library}", f"-l{api}", f"-Wl,-rpath,{library}", "-o", runs.folder / name)
    runs.expect(f"compile {name}", done.returncode == 0, done.stderr)
    return runs.folder / name


def page_program(runs, backend="cpu"):
    page = (runs.context.root / "docs/cluster.md").read_text()
    text, expected = re.search(r"^```c\n(.*?)^```.*?^```text\n(.*?)^```", page, re.M | re.S).groups()
    (runs.folder / "step.c").write_text(text)
    binary = build(runs, runs.folder / "step.c", "step")
    for processes in (1, 2, 4):
        code, out, err = runs.mpirun("-n", processes, binary, backend)
        runs.expect(f"C program in {processes}, {backend}", code == 0 and out == expected, f"code {code}\n{out}{err}")
    code, out, err = runs.mpirun("-n", 3, binary, backend)
    runs.expect("C program in 3", code == 1 and "error: the mesh has 4 devices, which 3 processes" in err, err)
    return binary, expected


def package_program(runs):
    """The same program from a package, with the library that has no compiler."""
    page = (runs.context.root / "docs/cluster.md").read_text()
    dt = re.search(r"^```dt\n(.*?)^```", page, re.M | re.S)[1]
    text, expected = re.search(r"^```c\n(.*?)^```.*?^```text\n(.*?)^```", page, re.M | re.S).groups()
    text = re.sub(r'dtc_compile\(context, .*?, &step, &error\)', 'dtc_load_package(context, "step.dtcpkg", &step, &error)', text, flags=re.S)
    text = re.sub(r"^static const char\* kStep =.*?;\n", "", text.replace("#include <string.h>\n", ""), flags=re.M | re.S)
    (runs.folder / "package.c").write_text(text)
    binary = build(runs, runs.folder / "package.c", "package", "dtc_runtime")
    (runs.folder / "package.dt").write_text(dt)
    made = [runs.context.run(runs.context.dtc, "compile", runs.folder / "package.dt", "--emit", "package", "--reduction-order", "fixed",
                             *flags, "-o", runs.folder / name) for name, flags in (("step.dtcpkg", []), ("gpu.dtcpkg", ["--target", "sm_90"]))]
    for processes in (1, 2, 4):
        code, out, err = runs.mpirun("-n", processes, binary)
        runs.expect(f"package in {processes}", made[0].returncode == 0 and code == 0 and out == expected, f"code {code}\n{out}{err}{made[0].stderr}")
    inputs = ["--input", "x=iota", "--input", "*=const(2)", "--loop", 3]
    one = runs.context.run(runs.context.dtc, "run", runs.folder / "step.dtcpkg", *inputs)
    for processes in (2, 4):
        code, out, err = runs.dtc(processes, "step.dtcpkg", *inputs)
        runs.expect(f"dtc run of a package in {processes}", code == 0 and out == one.stdout, f"code {code}\n{out}{err}{one.stdout}")
    # Processes have other packages.
    other = runs.folder / "other"
    other.mkdir()
    (other / "package.dt").write_text(dt.replace("0.01", "0.02"))
    runs.context.run(runs.context.dtc, "compile", other / "package.dt", "--emit", "package", "-o", other / "step.dtcpkg")
    code, out, err = runs.mpirun("-n", 1, "-wdir", runs.folder, binary, ":", "-n", 1, "-wdir", other, binary)
    runs.expect("other packages", code == 1 and "do not have the same program" in err and "step.dtcpkg/program.dt:" in err, f"code {code}\n{out}{err}")
    if made[1].returncode == 0:  # NVRTC is found
        (other / "step.dtcpkg").write_bytes((runs.folder / "gpu.dtcpkg").read_bytes())
        code, out, err = runs.mpirun("-n", 2, "-wdir", other, binary)
        runs.expect("a package for a GPU", code == 1 and "packages for GPUs cannot run in several processes yet" in err, f"code {code}\n{out}{err}")


def calls_of(out, rank):
    lines = [line.split(" ", 3) for line in out.splitlines() if line.startswith(f"{rank} ")]
    return ", ".join(f"{call} {status}" for _, call, status, _ in lines), [m for *_, status, m in lines if status != "0"]


def errors(runs, backend="cpu"):
    binary = build(runs, runs.context.root / "test/checks/mpi_api.c", "mpi-api")
    for what, (expected, words) in ERRORS.items():
        _, out, err = runs.mpirun("-n", 2, binary, what, 60, backend)
        for rank in (0, 1):
            calls, messages = calls_of(out, rank)
            said = bool(messages) and all(re.search(words, m) for m in messages)
            runs.expect(f"error {what} in process {rank}, {backend}", calls == expected and said, f"{out}{err}")
    code, out, err = runs.mpirun("-n", 2, binary, "calls", 60, backend)
    both = r"the run of p.dt \(program 1\)\\n  rank 1 on \S+ the compilation of p.dt"
    expected = ["compile 0, run 2, compile 0, run 0, leave 0", "compile 0, compile 2, compile 0, run 0, leave 0"]
    runs.expect(f"other calls, {backend}", code == 0 and [calls_of(out, r)[0] for r in (0, 1)] == expected and len(re.findall(both, out)) == 2,
                f"code {code}\n{out}{err}")
    code, out, err = runs.mpirun("-n", 2, binary, "slow", 1, backend)
    told = re.search(r"^note: no progress for \d s: rank 0 on \S+ waits at the run of p.dt \(program \d\), to which rank 1 on \S+ has not come, but answers$", err, re.M)
    good = [calls_of(out, r)[0] for r in (0, 1)] == ["compile 0, run 0, leave 0"] * 2
    runs.expect(f"a process that is late, {backend}", code == 0 and good and told and err.count("note:") == 1, f"code {code}\n{out}{err}")
    _, out, err = runs.mpirun("-n", 2, binary, "exit", 60, backend)
    why = r"rank 0 on \S+ has ended, but rank 1 on \S+ is at the run of p.dt"
    calls, messages = calls_of(out, 1)
    runs.expect(f"a process that leaves, {backend}", calls == "compile 0, run 0, run 3, leave 3" and all(re.search(why, m) for m in messages),
                f"{out}{err}")


def built_plugin(runs):
    """A dtc without plugins, as in a package, builds that for MPI in the folder of the user, and finds it there."""
    folder = runs.folder / "unplugged"
    folder.mkdir()
    shutil.copy(runs.context.dtc, folder)
    shutil.copy(runs.context.build / "bin" / "dtc-jit-clang.so", folder)
    folder.chmod(0o555)  # no effect for root
    data = ["env", f"XDG_DATA_HOME={folder}/data"] if os.getuid() else ["env"]
    done = runs.context.run(*data, folder / "dtc", "plugin", "build", "mpi", limit=120)
    where = folder / "data/dtc/plugins" if os.getuid() else folder
    runs.expect("plugin build", done.returncode == 0 and (where / "dtc-mpi.so").exists() and f"built {where}" in done.stdout,
                f"code {done.returncode}\n{done.stdout}{done.stderr}")
    (runs.folder / "plugged.dt").write_text("mesh @m = [a=2]\nfunc @main(%x: f32[4] @m{a}) -> (%s: f32[]) {\n  %s = sum %x\n"
                                            "  return %s\n}\n")
    code, out, err = runs.mpirun("-n", 2, *data, folder / "dtc", "run", "plugged.dt", "--comm", "mpi", "--input", "*=const(1)")
    runs.expect("run with a built plugin", code == 0 and out == "s = 4.0\n", f"code {code}\n{out}{err}")
    to = runs.folder / "user/dtc/plugins"
    done = runs.context.run(folder / "dtc", "plugin", "build", "mpi", "--to", to, limit=120)
    (folder / "dtc-mpi.so").unlink(missing_ok=True)
    code, out, err = runs.mpirun("-n", 2, "-x", f"XDG_DATA_HOME={runs.folder}/user", folder / "dtc", "run", "plugged.dt", "--comm", "mpi",
                                 "--input", "*=const(1)")
    runs.expect("run with a plugin of the user", done.returncode == 0 and code == 0 and out == "s = 4.0\n", f"code {code}\n{out}{err}")


def can_build(runs):
    can = compiler() and (runs.context.build / "bin" / "libdtc.so").exists()
    if not can:
        runs.context.note("no C programs in several processes: no C compiler, or libdtc was not built")
    return can


def check_programs(runs):
    if not can_build(runs):
        return
    page_program(runs)
    package_program(runs)
    errors(runs)
    built_plugin(runs)
