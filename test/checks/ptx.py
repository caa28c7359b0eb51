"""Inline PTX is allowed only in the CUDA device header, and each function with PTX has an equivalent in the emulator's."""

import re

HOME = "lib/Kernel/device/cuda.h"
ASM = re.compile(r"\basm\b(?:\s+volatile)?\s*\(")
FUNCTION = re.compile(r"^(?:template\s*<[^>]*>\s*)?DTC_FN\s+[\w\s\*]+?\b(\w+)\(([^)]*)\)\s*\{", re.M)


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def functions(text):
    """(name, number of parameters, body) of each function of a device header."""
    text = without_comments(text)
    for found in FUNCTION.finditer(text):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield found[1], len([p for p in found[2].split(",") if p.strip()]), text[found.end():at]


def emulated(prologue):
    """The headers that Prologue.cpp includes for the emulator."""
    families = re.search(r"kGpuFamilies\[\]\s*=\s*\{(.*?)\};", prologue, re.S)
    common = re.search(r"emuPrologue\(\)\s*\{(.*?)kGpuFamilies\)", prologue, re.S)
    return re.findall(r'"(\w+\.h)"', common[1] + families[1])


def complaints(header, twins, others):
    """The errors: `header` is the text of cuda.h, `twins` the emulator's headers, `others` {path: text} without PTX."""
    known = {(name, count) for text in twins for name, count, _ in functions(text)}
    with_asm = [(name, count) for name, count, body in functions(header) if ASM.search(body)]
    for name, count in with_asm:
        if (name, count) not in known:
            yield f"{name} has inline PTX and no twin of {count} parameters in the emulator's headers"
    inside = sum(len(ASM.findall(body)) for _, _, body in functions(header))
    if inside != len(ASM.findall(without_comments(header))):
        yield "inline PTX stands outside of a DTC_FN function"
    for path, text in others.items():
        if ASM.search(without_comments(text)):
            yield f"{path} has inline assembly: it belongs in {HOME}, with a twin"


def check(context):
    read = lambda path: (context.root / path).read_text()
    folder = HOME.rsplit("/", 1)[0]
    twins = [read(f"{folder}/{name}") for name in emulated(read("lib/Jit/Prologue.cpp"))]
    paths = [p for p in context.files(f"{folder}/*.h", "lib/Kernel/*.cpp", "lib/Runtime/*.cpp") if p != HOME]
    found = list(complaints(read(HOME), twins, {p: read(p) for p in paths}))
    for text in found:
        context.failed("ptx", text)
    context.passed(max(1, sum(1 for _, _, body in functions(read(HOME)) if ASM.search(body))) if not found else 0)
