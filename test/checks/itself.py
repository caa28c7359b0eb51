"""The checks can fail: each gets an invalid input, and must report it."""

from pathlib import Path

from . import coverage, docs, gpu_static, layers, linear, memory, ptx, roundtrip, size

LONG = ["Result<int> Thing::read(int a,", "                       int b) const {", *["  a = 1;"] * 90, "}", "", "int f() { return 1; }"]


NOT_LONG = ["  A(int x)", "      : x_(x), y_(x) {", "  }", "void f() {", "  if (a &&", "      b(1)) {", "    c();", "  }", *["  d();"] * 60, "}"]


def refused(function, argument):
    try:
        function(argument)
    except ValueError:
        return True
    return False


def cases():
    above = layers.complaint("lib/IR/Module.cpp", '"', "dtc/Passes/Pass.h")
    yield "layers: a higher floor", above and "above" in above
    yield "layers: the same floor", layers.complaint("lib/IR/Module.cpp", '"', "dtc/IR/Attr.h") is None
    yield "layers: LLVM outside its plugin", layers.complaint("lib/Jit/CpuJit.cpp", "<", "llvm/IR/Module.h")
    yield "layers: LLVM in its plugin", layers.complaint("lib/Jit/Clang/Jit.cpp", "<", "llvm/IR/Module.h") is None
    yield "layers: a neighbor's header", layers.complaint("lib/Jit/Clang/A.h", '"', "../../IR/Parser.h")
    yield "layers: the floor's own header", layers.complaint("lib/Jit/Clang/A.h", '"', "../ClangPlugin.h") is None
    yield "layers: another pass", layers.pass_complaint("lib/Passes/memory/A.cpp", "dtc/Passes/fuse/Fuse.h")
    yield "layers: a header shared by passes", layers.pass_complaint("lib/Passes/memory/A.cpp", "analysis/Clone.h") is None
    yield "layers: a circle of folders", layers.cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    yield "layers: no circle of folders", layers.cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
    known = {"include/dtc/IR/text/Text.h", "lib/IR/infer/Infer.h"}
    yield "layers: folders included", list(layers.folders_included(
        "lib/IR/verify/A.cpp", '#include "dtc/IR/text/Text.h"\n#include "infer/Infer.h"\n', known)) == ["lib/IR/text", "lib/IR/infer"]
    yield "layers: an unknown folder", layers.complaint("lib/Misc/A.cpp", '"', "dtc/IR/Attr.h")
    yield "size: a long function", [(first, length) for first, length, _ in size.functions(LONG)] == [(1, 93)]
    yield "size: a condition is not a function", [length for _, length, _ in size.functions(NOT_LONG)] == [3, 66]
    two = {"lib/A/x.cpp": "int A::f() {\n", "lib/A/y.cpp": "A::A(int a) : a_(a) {}\nB::C A::g() const {\n", "lib/B/z.cpp": "void A::h() {\n"}
    yield "size: a class in two files", size.spread(two) == {("lib/A", "A"): ["lib/A/x.cpp", "lib/A/y.cpp"]}
    yield "docs: unlabelled IR", docs.looks_like_ir("func @f(%x: f32[2]) -> (f32[2]) {\n") and docs.looks_like_ir("  %y = relu %x\n")
    yield "docs: other text", not docs.looks_like_ir("$ dtc opt x.dt\nmesh of eight\n")
    yield "docs: blocks", [(b[0], b[1]) for b in docs.blocks("a\n```dt\nx\n```\n\n```\ny\n```\n")] == [(2, "dt"), (6, "")]
    yield "docs: headings", list(docs.headings("# A `b`: c, d\n```\n# no\n```\n## E f\n")) == ["a-b-c-d", "e-f"]
    root = Path(docs.__file__).parent
    yield "docs: a missing file", list(docs.link_complaints(root, "docs.py", "\n[a](none.md)\n"))[0][0] == 2
    yield "docs: a missing heading", list(docs.link_complaints(root, "docs.py", "[a](docs.py#none)"))
    yield "docs: links", not list(docs.link_complaints(root, "docs.py", "[a](itself.py) [b](https://x.y/z)"))
    good = "# T\n\nFor users: a round trip of `pieces`.\n"
    yield "docs: good style", not list(docs.style_complaints("a.md", good))
    yield "docs: no audience", list(docs.style_complaints("a.md", "# T\n\nThis page.\n"))
    yield "docs: a long line", list(docs.style_complaints("a.md", good + "x" * 111 + "\n"))
    yield "docs: a private word", list(docs.style_complaints("a.md", good + "Three trips.\n"))
    yield "docs: decisions", not list(docs.decision_complaints("## 1. A (2026-01-02)\n## 2. B (2026-01-02)\n"))
    yield "docs: a gap in decisions", list(docs.decision_complaints("## 1. A (2026-01-02)\n## 3. B (2026-01-02)\n"))
    yield "docs: a decision without a date", list(docs.decision_complaints("## 1. A\n"))
    yield "roundtrip: parts", len(roundtrip.parts("a\n// -----\nb\n")) == 2
    yield "roundtrip: an expected error", roundtrip.wrong_on_purpose("// expected-error@+1 {{x}}")
    yield "roundtrip: none expected", not roundtrip.wrong_on_purpose("// RUN: %dtc opt %s | FileCheck %s")
    yield "linear: quadratic time", linear.complaint([[0.1, 5.0], [0.1, 4.0]], "10", "100", "x")
    yield "linear: linear time", linear.complaint([[0.1, 5.0], [0.09, 1.1]], "10", "100", "x") is None
    complete = {"y.npz": 100}
    yield "memory: an abort", memory.complaint(-6, "error: out of memory", {}, complete)
    yield "memory: no message", memory.complaint(3, "", {}, complete)
    yield "memory: half a file", memory.complaint(3, "error: out of memory", {"y.npz": 99}, complete)
    yield "memory: a temporary file", memory.complaint(3, "error: out of memory", {"y.npz.XyZ123": 100}, complete)
    yield "memory: nothing left", memory.complaint(3, "error: out of memory", {}, complete) == ""
    kernel = {"kernel": "k", "complaints": [{"kind": "narrow", "text": "2-byte loads"}], "analyzed": False}
    value = {"writer": "a", "readers": ["b"], "uses": 1, "type": "t", "passes": 3, "least": 2}
    report = {"gpu": {"kernels": [kernel], "matmuls": [{"shape": "m", "calls": 12}, {"shape": "n", "calls": 1}], "passes": [value]}}
    found = [("case", *c) for c in gpu_static.complaints(report)]
    yield "gpu-static: each complaint", [f[2] for f in found] == ["narrow", "unknown", "matmul-calls", "passes"]
    exceptions = gpu_static.read_exceptions("# why\ncase: k: narrow\nc*: a -> b: passes\nother: k: grid\ncase: k: grid\n")
    yield "gpu-static: exceptions", [name for name, _ in gpu_static.judge(found, exceptions, ["case"])] == [
        "case: k: unknown", "case: m: matmul-calls", f"{gpu_static.EXCEPTIONS}:5"]
    for bad in ("case: k: narrow\n", "# why\ncase: k: slow\n", "# why\nk: narrow\n"):
        yield f"gpu-static: the exception '{bad.strip()}'", refused(gpu_static.read_exceptions, bad)
    with_asm = 'DTC_FN f32 dtc_f(f32 a) {\n  asm("x;" : : "f"(a));\n  return a;\n}\n'
    yield "ptx: no equivalent", list(ptx.complaints(with_asm, ["DTC_FN f32 dtc_f(f32 a, f32 b) { return a; }\n"], {}))
    yield "ptx: an equivalent", not list(ptx.complaints(with_asm, ["template <class T> DTC_FN T dtc_f(T a) { return a; }\n"], {}))
    yield "ptx: elsewhere", list(ptx.complaints("", [], {"lib/Kernel/A.cpp": 'text += "asm volatile(\\"bar.sync 0;\\");";'}))
    yield "coverage: parts of a format", coverage.parts_of("{0} has rank {1}, expected {2}") == ["has rank", ", expected"]


def check(context):
    for name, holds in cases():
        if holds:
            context.passed()
        else:
            context.failed(f"itself {name}", "the check does not report it")
