"""A floor includes only floors below it, and each outside library is seen by one folder alone."""

import os
import re

FLOORS = ["Support", "Sharding", "IR", "Ops", "Eval", "Passes", "Kernel", "Jit", "Runtime", "Plan", "Import", "Model",
          "Check", "Report"]
# header prefix -> the folders that may include it
OUTSIDE = {
    "clang/": ["lib/Jit/Clang/"],
    "llvm/": ["lib/Jit/Clang/"],
    "oneapi/": ["lib/Runtime/OneDnn/"],
    "dnnl": ["lib/Runtime/OneDnn/"],
    "mpi": ["lib/Runtime/Mpi/"],
    "omp.h": ["lib/Runtime/OneDnn/"],
    "cuda": ["lib/Jit/", "lib/Runtime/", "test/unit/Jit/"],
    "nvrtc": ["lib/Jit/"],
    "cublas": ["lib/Runtime/", "test/unit/Jit/"],
    "nccl": ["lib/Jit/", "test/unit/Jit/"],
    "CLI/": ["tools/dtc/"],
    "gtest/": ["test/unit/"],
    "gmock/": ["test/unit/"],
}


def floor_of(path):
    parts = path.split("/")
    if parts[0] == "lib":
        return FLOORS.index(parts[1]) if parts[1] in FLOORS else None
    if parts[:2] == ["include", "dtc"] and len(parts) > 3:
        return FLOORS.index(parts[2]) if parts[2] in FLOORS else None
    return len(FLOORS)  # tools, unit tests and fuzz targets stand on all of them


def complaint(path, mark, header):
    own = floor_of(path)
    if own is None:
        return f"lies in a folder that is no floor ({', '.join(FLOORS)})"
    if mark == '"' and header.startswith("../"):
        folder = "/".join(os.path.normpath(os.path.join(os.path.dirname(path), header)).split("/")[:2])
        if path.startswith((folder + "/", "test/unit/")):
            return None  # within a floor, or a unit test of what is private
        return f"includes {header}: a neighbour's private header; what is shared belongs in include/dtc"
    if header.startswith("dtc/"):
        parts = header.split("/")
        if len(parts) < 3:
            return None  # dtc/Version.h, which CMake writes
        if parts[1] not in FLOORS:
            return f"includes {header}, which is on no floor"
        if FLOORS.index(parts[1]) > own:
            return f"includes {header}, which is above it"
        return None
    for prefix, folders in OUTSIDE.items():
        if header.startswith(prefix) and not any(path.startswith(f) for f in folders):
            return f"includes {header}, which only {' and '.join(folders)} may"
    return None


def check(context):
    for path in context.files("lib/*.cpp", "lib/*.h", "include/dtc/*.h", "tools/*.cpp", "tools/*.h",
                              "test/unit/*.cpp", "test/unit/*.h"):
        found = []
        for number, line in enumerate((context.root / path).read_text(errors="replace").splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
            why = complaint(path, include[1], include[2]) if include else None
            if why:
                found.append(f"line {number} {why}")
        if found:
            context.failed(f"layers {path}", "; ".join(found))
        else:
            context.passed()
