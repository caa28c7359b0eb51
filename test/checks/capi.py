"""The C API as its users get it: an installed tree, the program of docs/c-api.md, and the binary interface.

The program is compiled as C99 with pkg-config and with find_package(dtc), and runs with libdtc.so in the installed tree, in the
build tree and beside its plugins in one folder (a Python wheel). The exported symbols and the layouts of the structs are those of
test/checks/abi.txt: what is there may not change without a new DTC_ABI_VERSION, and what is new is added to the list."""

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

HEADERS = ["include/dtc/dtc.h", "include/dtc/dlpack.h"]
PROJECT = """cmake_minimum_required(VERSION 3.16)
project(first LANGUAGES C)
find_package(dtc 0.1 REQUIRED)
add_executable(first first.c)
target_link_libraries(first PRIVATE dtc::dtc)
"""
PLUGINS = ["dtc-jit-clang.so", "dtc-onednn.so"]


def compiler():
    return next((c for c in ("clang-19", "clang-18", "clang", "cc", "gcc") if shutil.which(c)), None)


def program_of(page):
    """The C program of the page, and what the page says it prints."""
    text = page.read_text()
    found = re.search(r"^```c\n(.*?)^```.*?^```text\n(.*?)^```", text, re.M | re.S)
    return found[1], found[2]


def structs(text):
    """{name: fields} of the structs whose layout users compile into their programs."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S):
        body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", body)
        fields = []
        for statement in body.split(";"):
            words = re.findall(r"\w+(?=\s*(?:,|$))", statement.strip())
            fields += words
        found[name] = fields
    return found


def layout(context, folder):
    """The lines of abi.txt for this build."""
    header = (context.root / HEADERS[0]).read_text()
    lines = []
    for name, fields in structs(header).items():
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        lines += [f'  printf("  {f} %zu\\n", offsetof({name}, {f}));' for f in fields]
    source = folder / "layout.c"
    source.write_text("#include <dtc/dtc.h>\n#include <stdio.h>\nint main(void) {\n"
                      '  printf("abi %d\\n", DTC_ABI_VERSION);\n' + "\n".join(lines) + "\n  return 0;\n}\n")
    done = context.run(compiler(), "-std=c99", f"-I{context.root}/include", source, "-o", folder / "layout")
    if done.returncode:
        return done.stderr.splitlines()
    constants = re.findall(r"^#define (DTC_[A-Z]\w+) (-?\d+)\b", header, re.M)
    out = context.run(folder / "layout").stdout.splitlines()
    out += [f"constant {name} {value}" for name, value in constants if name != "DTC_ABI_VERSION"]
    symbols = context.run("nm", "-D", "--defined-only", context.build / "bin" / "libdtc.so").stdout
    exported = sorted(line.split()[-1].split("@")[0] for line in symbols.splitlines() if " A " not in line)
    # dtc_internal_*: between the library and the Python package of its own version.
    return out + [f"function {name}" for name in exported if not name.startswith("dtc_internal_")]


def check_abi(context, folder):
    expected = (context.root / "test/checks/abi.txt").read_text().splitlines()
    found = layout(context, folder)
    (context.build / "abi.txt").write_text("\n".join(found) + "\n")
    gone = [line for line in expected if line not in found]
    new = [line for line in found if line not in expected]
    if found == expected:
        context.passed()
    elif gone:
        context.failed("capi abi", f"changed without a new DTC_ABI_VERSION: {gone}, now {new}")
    else:
        context.failed("capi abi", f"new: {new}; copy {context.build}/abi.txt to test/checks/abi.txt")


def runs(context, name, binary, library, expected, folder):
    cache = folder / f"cache-{re.sub(r'[^a-z]', '-', name)}"
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                   "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([str(binary)], env=environment, capture_output=True, text=True, timeout=120, cwd=folder)
    if done.returncode or done.stdout != expected:
        context.failed(f"capi {name}", f"exit code {done.returncode}, prints:\n{done.stdout}{done.stderr}")
    elif not any(cache.rglob("*cpu*")):
        context.failed(f"capi {name}", "no kernel was compiled into the cache")
    else:
        context.passed()


def linked(context, name, prefix, folder):
    """The program, compiled with pkg-config."""
    flags = [f"-I{prefix}/include", f"-L{prefix}/lib", "-ldtc"]
    if shutil.which("pkg-config"):
        asked = subprocess.run(["pkg-config", "--cflags", "--libs", "dtc"], capture_output=True, text=True,
                               env={**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"})
        flags = asked.stdout.split()
        if asked.returncode:
            context.failed(f"capi pkg-config {name}", asked.stderr)
    elif not (prefix / "lib" / "libdtc.so").exists():
        return None  # a wheel has no name for -ldtc
    binary = folder / ("first-" + name.replace(" ", "-"))
    done = context.run(compiler(), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", folder / "first.c", *flags, "-o", binary)
    if done.returncode:
        context.failed(f"capi compile {name}", done.stderr)
        return None
    return binary


def configured(context, name, prefix, folder):
    """The program, compiled with find_package."""
    build = folder / ("build-" + name.replace(" ", "-"))
    for command in (["-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={compiler()}"],
                    ["--build", build]):
        done = context.run("cmake", *command)
        if done.returncode:
            context.failed(f"capi {name}", done.stdout[-1000:] + done.stderr[-1000:])
            return None
    return build / "first"


def flattened(context, prefix, folder):
    """What a wheel has of an installed tree."""
    for part in ("include", "lib/cmake", "lib/pkgconfig"):
        shutil.copytree(prefix / part, folder / part)
    for file in (*prefix.glob("lib/libdtc*"), *(prefix / "lib" / "dtc" / p for p in PLUGINS)):
        if file.exists():
            to = folder / file.relative_to(prefix)
            to.parent.mkdir(exist_ok=True)
            shutil.copy(file, to, follow_symlinks=False)
    done = context.run("cmake", f"-DROOT={folder}", "-P", context.root / "packaging/flatten.cmake")
    if done.returncode or any((folder / "lib").glob("libdtc_runtime*")) or len(list((folder / "lib").glob("libdtc.so*"))) != 1:
        context.failed("capi flatten", done.stderr or "a wheel has one name of libdtc.so, and no libdtc_runtime.so")
    return folder


def check_program(context, folder):
    """The page's program in each layout in which libdtc.so is used."""
    text, expected = program_of(context.root / "docs/c-api.md")
    (folder / "first.c").write_text(text)
    prefix = folder / "installed"
    done = context.run("cmake", "--install", context.build, "--prefix", prefix, limit=120)
    if done.returncode:
        context.failed("capi install", done.stderr[-2000:])
        return
    binary = linked(context, "installed", prefix, folder)
    if binary is None:
        return
    wheel = folder / "wheel"
    wheel.mkdir()
    shutil.copy(context.build / "bin" / "libdtc.so", wheel / "libdtc.so.1")
    for plugin in PLUGINS:
        if (context.build / "bin" / plugin).exists():
            shutil.copy(context.build / "bin" / plugin, wheel)
    for name, library in (("installed", prefix / "lib"), ("build tree", context.build / "bin"), ("one folder", wheel)):
        runs(context, name, binary, library, expected, folder)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    flat = flattened(context, prefix, folder / "flat")
    for name, tree in (("find_package", prefix), ("find_package in a wheel", flat)):
        binary = configured(context, name, tree, folder)
        if binary is not None:
            runs(context, name, binary, tree / "lib", expected, folder)
    binary = linked(context, "in a wheel", flat, folder)
    if binary is not None:
        runs(context, "pkg-config in a wheel", binary, flat / "lib", expected, folder)


def check_headers(context, folder):
    for language, flags in (("c", ["-std=c99"]), ("c++", ["-std=c++11"])):
        source = folder / "headers.txt"
        source.write_text("".join(f"#include <{h.removeprefix('include/')}>\n" for h in HEADERS))
        done = context.run(compiler(), "-x", language, *flags, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                           f"-I{context.root}/include", source)
        if done.returncode:
            context.failed(f"capi headers in {language}", done.stderr)
        else:
            context.passed()


def changed(package, out, entry, change):
    """A copy of a package in which the text of one entry is changed."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, change(text.decode()).encode() if name == entry else text)
    return out


def without_compiler(context, folder):
    """The environment of a process that finds libdtc_runtime.so, but no compiler and no cache."""
    runtime = folder / "runtime"
    runtime.mkdir()
    shutil.copy(context.build / "bin" / "libdtc_runtime.so", runtime / "libdtc_runtime.so.1")
    if (context.build / "bin" / "dtc-onednn.so").exists():
        shutil.copy(context.build / "bin" / "dtc-onednn.so", runtime)
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    return {**kept, "LD_LIBRARY_PATH": f"{runtime}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def check_packages(context, folder):
    """A package runs without a compiler, and says why where it does not fit."""
    package, program = folder / "layer.dtcpkg", folder / "layer.dt"
    program.write_text("func @main(%x: f32[8, 16], %w: f32[16, 4]) -> (%y: f32[8, 4]) {\n  %h = matmul %x, %w\n"
                       "  %y = add %h, 1.5\n  return %y\n}\n")
    done = context.run(context.dtc, "compile", program, "--emit", "package", "-o", package)
    if done.returncode:
        context.failed("capi package", done.stderr)
        return
    text = re.search(r"^```c\n(.*?)^```", (context.root / "docs/ahead-of-time.md").read_text(), re.M | re.S)[1]
    (folder / "serve.c").write_text(text)
    done = context.run(compiler(), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", folder / "serve.c",
                       f"-I{context.root}/include", f"-L{context.build}/bin", "-ldtc_runtime", "-o", folder / "serve")
    if done.returncode:
        context.failed("capi package program", done.stderr)
        return
    environment = without_compiler(context, folder)

    def expect(name, path, code, words, **more):
        done = subprocess.run([str(folder / "serve"), str(path)], env={**environment, **more}, capture_output=True,
                              text=True, timeout=60)
        if done.returncode != code or words not in done.stdout + done.stderr:
            context.failed(f"capi package {name}", f"expected exit code {code} and '{words}', got {done.returncode}:\n"
                           f"{done.stdout}{done.stderr}")
        else:
            context.passed()

    expect("runs", package, 0, "2 arguments, result[0] = 1.5")
    manifest = "manifest.json"
    expect("of another version", changed(package, folder / "version", manifest, lambda t: t.replace('"dtc": "', '"dtc": "9')),
           1, "was compiled by dtc 9")
    expect("of another format", changed(package, folder / "format", manifest, lambda t: re.sub('"format": \\d+', '"format": 99', t)),
           1, "is a package of format 99, but this dtc reads format")
    older = changed(package, folder / "older", manifest, lambda t: '{"format": 1, "dtc": "0.1.0"}')
    expect("of an older format", older, 1, "is a package of format 1, but this dtc reads format")
    expect("of another format whose program is wrong",
           changed(older, folder / "both", "program.dt", lambda t: "not a program"), 1, "is a package of format 1")
    expect("for another target", changed(package, folder / "target", manifest, lambda t: t.replace('"cpu",', '"rv64",', 1)),
           1, "is compiled for an unknown target: rv64")
    expect("for a better CPU", changed(package, folder / "level", manifest, lambda t: re.sub('"cpu": "\\w+"', '"cpu": "avx512"', t)),
           1, "needs a CPU with avx512", DTC_CPU_LEVEL="generic")
    expect("with an unknown entry", changed(package, folder / "entry", manifest, lambda t: t.replace('"main"', '"other"')),
           1, "has no placed function @other")
    expect("with another program", changed(package, folder / "program", "program.dt", lambda t: t.replace("1.5", "2.5")),
           1, "has no code for the kernel")
    expect("with a wrong program", changed(package, folder / "wrong", "program.dt", lambda t: t.replace("return", "retur")),
           1, "error: ")
    data = package.read_bytes()
    for name, bytes_ in (("cut off", data[:-100]), ("with a wrong byte", data[:200] + bytes([data[200] ^ 1]) + data[201:]),
                         ("empty", b"")):
        (folder / "damaged").write_bytes(bytes_)
        expect(name, folder / "damaged", 1, "is not a valid package")
    needed = context.run("ldd", context.build / "bin" / "libdtc_runtime.so").stdout
    if "LLVM" in needed or "clang" in needed:
        context.failed("capi runtime", f"libdtc_runtime.so needs a compiler:\n{needed}")


def check(context):
    if not compiler() or not (context.build / "bin" / "libdtc.so").exists():
        context.note("the C API is not checked: no C compiler, or libdtc was not built")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_headers(context, folder)
        check_abi(context, folder)
        check_program(context, folder)
        check_packages(context, folder)
