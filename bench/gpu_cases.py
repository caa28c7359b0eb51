"""The cases of bench/gpu.py: programs to check, and rows to measure."""

import dataclasses
import re

import rows as table


@dataclasses.dataclass
class Case:
    name: str
    command: str  # of a shell; %dtc is the binary


def runs_of_tests(top, backend):
    """The RUN lines of the tests that check a program under cuda-emu, for `backend`: step by step and, on a GPU, as graphs; and on a
    GPU those that check one on one GPU (in the tests a stub)."""
    for path in sorted((top / "test").rglob("*")):
        if path.suffix not in (".dt", ".mlir", ".test") or not path.is_file():
            continue
        text = path.read_text(errors="replace").replace("\\\n// RUN:", "")
        for number, line in enumerate(re.findall(r"RUN: (.*)", text)):
            command = line.split("| FileCheck")[0].strip()
            stub = command.startswith("%gpus 1 %dtc ") and "--backend cuda " in command + " " and "--json" not in command
            if "--check" not in command or command.startswith("not") or "%t" in command or "%stub" in command:
                continue
            if "--backend cuda-emu" not in command and not (stub and backend == "cuda"):
                continue
            command = command.removeprefix("%gpus 1 ")
            command = command.replace("2>&1", "").replace("%examples", str(top / "examples")).replace("%s", str(path)).replace("%S", str(path.parent))
            name = f"{path.relative_to(top / 'test')}:{number}"
            if backend == "cuda":
                command = command.replace("--backend cuda-emu", "--backend cuda").replace("--no-emu-checks", "")
            yield Case(name, command)
            if backend == "cuda" and not stub:
                more = "" if "--loop" in command or "--repeat" in command else " --repeat 3"
                yield Case(name + " graphs", re.sub(r" -O\d", "", command) + " -O2" + more)


def examples(top, backend):
    sizes = {1: "dp:1,tp:1", 2: "dp:1,tp:2", 4: "dp:2,tp:2", 8: "dp:2,tp:4"}
    for name in ("mlp", "mlp-grad", "gpt", "linear-softmax"):
        for count, mesh in sizes.items():
            mesh = f"dp:{count}" if name == "linear-softmax" else mesh
            for how, flags in (("", "-O1"), (" graphs", "-O2 --repeat 3"), (" -O2 without graphs", "-O2 --repeat 3 --no-graphs")):
                if backend != "cuda" and how:
                    continue
                yield Case(f"examples/{name}.dt on {count}{how}",
                           f"%dtc run {top}/examples/{name}.dt --backend {backend} {flags} --input '*=uniform(1,-0.5,0.5)' --check --mesh pod={mesh}")


def models(backend):
    gpt = "gpt --layers 2 --hidden 64 --heads 4 --seq 16 --batch 8 --vocab 97"
    llama = "llama --layers 2 --hidden 64 --heads 8 --kv-heads 4 --ffn 96 --seq 16 --batch 8 --vocab 97"
    for name, model in (("gpt", gpt), ("llama", llama)):
        for mode, dtype in (("forward", "bf16"), ("loss", "f32"), ("train", "f32")):
            for parallel in ("", "--parallel dp=2", "--parallel dp=2,tp=2", "--parallel dp=2,tp=4,sp"):
                for how, flags in (("", "-O1"), (" graphs", "-O2 --repeat 3")):
                    if backend != "cuda" and (how or "tp=4" in parallel):
                        continue
                    yield Case(f"{name} {mode} {dtype} {parallel.removeprefix('--parallel ')}{how}",
                               f"%dtc model {model} --mode {mode} --dtype {dtype} {parallel} | %dtc run - --backend {backend} {flags} "
                               "--input '*=randn(1,0.05)' --check")


def control_flow(top, backend):
    """Loops and branches as conditional nodes of graphs, and with predicates read by the host."""
    programs = {"cuda-graphs.dt": ("@loops", ("m=a:1,b:1", "m=a:3,b:2")), "cuda-conditionals.dt": ("@nested", ("m=a:1", "m=a:2"))}
    for name, (entry, meshes) in programs.items() if backend == "cuda" else ():
        for mesh in meshes:
            for how, flags in (("conditional nodes", ""), ("host predicates", "--host-predicates")):
                # Local functions contain the mesh's sizes, so they are dropped.
                yield Case(f"{name} {mesh} {how}", f"sed '/^spmd/,/^}}/d' {top}/test/Runtime/{name} | %dtc run - --entry {entry} --backend cuda --comm local -O2 --repeat 3 {flags} "
                                                   f"--input '*=randn(1)' --check --mesh {mesh}")


def cases(top, backend, quick):
    found = [*examples(top, backend), *control_flow(top, backend), *models(backend), *runs_of_tests(top, backend)]
    return found[::5] if quick else found


WIDTHS = (1024, 4096, 16384, 65536, 262144)
ELEMENTS = 1 << 28  # per wide tensor: 512 MiB in bf16, larger than every cache, and long enough to time
SCANNED = 1 << 26   # per tensor of a scan or a sort
SIZE = {"f8e4m3": 1, "bf16": 2, "f32": 4, "i32": 4}


def bytes_of(row):
    """The necessary bytes: each argument read once, each result written once."""
    moved = 0
    for name, dtype, shape in row.arguments + row.results:
        size = SIZE[dtype]
        for s in shape:
            size *= s
        moved += size * (2 if name in row.differentiated else 1)  # an argument and its gradient; a result or its gradient
    return moved


@dataclasses.dataclass
class KernelRow:
    kind: str  # of bench/rows.py
    width: int
    dtype: str
    target: int  # percent of a copy
    rows: int
    flops: int = 0  # bound by bytes
    flags: str = ""

    @property
    def name(self):
        return f"{self.kind} {self.dtype} [{self.rows}, {self.width}]"

    def program(self):
        """(its text, its arguments as (name, dtype, number of elements), the necessary bytes)"""
        base, size = table.ROWS[self.kind], table.Size(self.rows, self.width, self.dtype)
        row = table.Row(size.of(base.arguments), base.body, size.of(base.results), base.stream, base.differentiated)
        return base.text(size), arguments_of(row), bytes_of(row)

    def order(self):
        return {"row": self.name, "kind": self.kind, "rows": self.rows, "width": self.width, "dtype": self.dtype}


def arguments_of(row):
    found = [(name, dtype, shape) for name, dtype, shape in row.arguments]
    if row.differentiated:
        name, dtype, shape = row.results[0]
        found.append(("dy", dtype, [rows if s == "rows" else s for s in shape]))
    return found


@dataclasses.dataclass
class OpRow:
    """One op at one size: convolutions, matrix products, attention, scans, sorts."""
    kind: str
    dtype: str
    sizes: dict  # for the peers
    row: table.Row
    target: int = 0  # percent of a copy; 0: no target
    flops: int = 0   # 0: bound by bytes
    flags: str = ""  # of `dtc run`

    @property
    def name(self):
        return f"{self.kind} {self.dtype} [{', '.join(str(s) for s in self.sizes.values())}]"

    def program(self):
        text = self.row.text(table.Size(0, dtype=self.row.results[0][1]))
        return text, arguments_of(self.row), bytes_of(self.row)

    def order(self):
        return {"row": self.name, "kind": self.kind, "dtype": self.dtype, "sizes": self.sizes}


def convolutions(n, c, size):
    x, w, z = ("x", "bf16", [n, c, size, size]), ("w", "bf16", [c, c, 3, 3]), ("z", "bf16", [n, c, size, size])
    body = "  %z = conv %x, %w {padding = [[1, 1], [1, 1]]}\n"
    for kind, made in (("conv", []), ("conv-data", ["x"]), ("conv-filter", ["w"])):
        yield OpRow(kind, "bf16", {"n": n, "c": c, "size": size}, table.Row([x, w], body, [z], "copy", made), flops=2 * 9 * n * c * c * size * size)


def products(size, tokens, groups):
    for kind, dtype, flags in (("matmul", "bf16", ""), ("matmul", "f32", ""), ("matmul-tf32", "f32", "--matmul-precision tf32"), ("matmul", "f8e4m3", "")):
        square = [size, size]
        body = "  %z = matmul %x, %w {transpose_b = true}\n"
        row = table.Row([("x", dtype, square), ("w", dtype, square)], body, [("z", dtype, square)], "copy")
        yield OpRow(kind, dtype, {"m": size, "k": size, "n": size}, row, flops=2 * size ** 3, flags=flags)
    # Scaled as in torch._scaled_mm: one library call, with the result in bf16.
    body = ("  %0 = convert %x {dtype = bf16}\n  %1 = convert %s {dtype = bf16}\n  %2 = mul %0, %1\n  %3 = convert %w {dtype = bf16}\n"
            "  %4 = convert %t {dtype = bf16}\n  %5 = mul %3, %4\n  %z = matmul %2, %5 {transpose_b = true}\n")
    row = table.Row([("x", "f8e4m3", [size, size]), ("w", "f8e4m3", [size, size]), ("s", "f32", []), ("t", "f32", [])], body,
                    [("z", "bf16", [size, size])], "copy")
    yield OpRow("matmul-scaled", "f8e4m3", {"m": size, "k": size, "n": size}, row, flops=2 * size ** 3)
    k = n = size // 2
    ends = [tokens * (i + 1) // groups for i in range(groups)]
    body = f"  %ends = constant {{value = {ends}}} : i32[{groups}]\n  %z = grouped_matmul %x, %w, %ends\n"
    row = table.Row([("x", "bf16", [tokens, k]), ("w", "bf16", [groups, k, n])], body, [("z", "bf16", [tokens, n])], "copy")
    yield OpRow("grouped_matmul", "bf16", {"tokens": tokens, "groups": groups, "k": k, "n": n}, row, flops=2 * tokens * k * n)


def attentions(batch, heads, seq, size):
    shape = [batch, heads, seq, size]
    flops = 2 * batch * heads * seq * seq * size  # two matrix products, halved by a causal mask; the gradient recomputes them, and computes five more
    both = [(name + end, made, times, flags) for name, flags in (("attention", ""), ("attention-own", "--no-cudnn"))
            for end, made, times in (("", [], 1), ("-grad", ["q", "k", "v"], 3.5))]
    for kind, made, times, flags in both:
        row = table.Row([(n, "bf16", shape) for n in "qkv"], "  %z = attention %q, %k, %v {causal = true}\n", [("z", "bf16", shape)], "copy", made)
        yield OpRow(kind, "bf16", {"batch": batch, "heads": heads, "seq": seq, "size": size}, row, flops=int(times * flops), flags=flags)


def decodes(batch, heads, key_heads, seq, size):
    """One query per sequence, against a cache of keys: bound by bytes."""
    q, keys = [batch, heads, 1, size], [batch, key_heads, seq, size]
    row = table.Row([("q", "bf16", q), ("k", "bf16", keys), ("v", "bf16", keys)], "  %z = attention %q, %k, %v\n", [("z", "bf16", q)], "copy")
    yield OpRow("decode", "bf16", {"batch": batch, "heads": heads, "key_heads": key_heads, "seq": seq, "size": size}, row)


def scans_and_sorts(elements):
    def of(kind, op, results, width, target=0, **sizes):
        rows = max(1, elements // width)
        shape = [rows, width]
        made = [(n, d, [s if s else rows for s in tail]) for n, d, tail in results]
        row = table.Row([("x", "f32", shape)], f"  {', '.join('%' + n for n, _, _ in results)} = {op}\n", made, "copy")
        return OpRow(kind, "f32", {"rows": rows, "width": width, **sizes}, row, target)
    wide = min(32768, elements // 2)
    many = min(64, wide)
    yield of("cumsum", "cumsum %x {dim = 1}", [("z", "f32", [0, wide])], wide, 90)
    yield of("cumsum-columns", "cumsum %x {dim = 0}", [("z", "f32", [0, 4096])], 4096, 90)
    yield of("argmax", "argmax %x {dim = 1}", [("i", "i32", [0])], wide, 90)
    yield of("topk", f"topk %x {{k = {many}, dim = 1}}", [("z", "f32", [0, many]), ("i", "i32", [0, many])], wide, k=many)
    yield of("sort", "sort %x {dim = 1}", [("z", "f32", [0, 4096]), ("i", "i32", [0, 4096])], 4096)
    long = min(1 << 20, elements)
    yield of("sort-long", "sort %x {dim = 1}", [("z", "f32", [0, long]), ("i", "i32", [0, long])], long)


def op_rows(tiny):
    if tiny:
        return [*convolutions(1, 8, 6), *products(32, 64, 4), *attentions(1, 2, 32, 16), *decodes(1, 4, 2, 600, 16), *scans_and_sorts(1 << 14)]
    return [*convolutions(32, 256, 56), *products(8192, 16384, 16), *attentions(4, 16, 4096, 128), *decodes(1, 32, 8, 65536, 128), *decodes(32, 32, 8, 4096, 128),
            *scans_and_sorts(SCANNED)]


def kernel_rows(quick, tiny=False):
    """The most informative ones first, since time may run out."""
    elements, widths = (1 << 13, (64, 128)) if tiny else (ELEMENTS, WIDTHS[1:2] if quick else WIDTHS)

    def row(kind, width, dtype, target):
        return KernelRow(kind, width, dtype, target, max(1, elements // width))
    forward, backward = ("rms_norm", "softmax", "layer_norm", "cross_entropy"), ("rms_norm-grad", "layer_norm-grad", "softmax-grad")
    middle = widths[0] if len(widths) < 3 else widths[1]
    first = [row(kind, middle, "bf16", 90) for kind in forward] + [row(kind, middle, "bf16", 80) for kind in backward]
    first += [row(kind, middle, dtype, 90) for kind in ("bias-gelu-residual", "pointwise") for dtype in ("bf16", "f32")]
    rest = [row(kind, width, "bf16", 90) for kind in forward for width in widths if width != middle]
    rest += [row(kind, width, "bf16", 80) for kind in backward for width in widths[:3] if width != middle]
    rest += [row(kind, middle, "f32", 90) for kind in ("rms_norm", "softmax")]
    return first + op_rows(tiny) + ([] if quick else rest)


@dataclasses.dataclass
class ModelRow:
    name: str
    arguments: str  # of `dtc model`
    shape: dict

    def inputs(self):
        """(argument, value) of `dtc run --input`: the same distributions as in gpu_peers.py."""
        return [("*", "randn(1,0.02)"), ("tokens", f"randint(1,0,{self.shape['vocab']})"), ("labels", f"randint(2,0,{self.shape['vocab']})")]

    def order(self):
        return {"row": self.name, "kind": self.shape["kind"], **self.shape}


def model_rows(quick, tiny=False):
    layers = 1 if tiny else 2 if quick else 12
    gpt = {"kind": "gpt", "layers": layers, "hidden": 768, "heads": 12, "vocab": 50304, "seq": 1024, "batch": 8}
    llama = {"kind": "llama", "layers": layers, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 2816, "vocab": 32000, "seq": 1024, "batch": 8}
    if tiny:
        small = {"hidden": 32, "heads": 4, "vocab": 64, "seq": 16, "batch": 1}
        gpt, llama = {**gpt, **small}, {**llama, **small, "kv_heads": 2, "ffn": 48}
    found = []
    for shape in (gpt, llama):
        flags = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in shape.items() if k != "kind")
        found.append(ModelRow(f"{shape['kind']} training step, bf16, {layers} layers", f"{shape['kind']} {flags} --dtype bf16 --mode train", shape))
    return found
