"""What bench/gpu.py runs: programs that must be right, and rows that are measured."""

import dataclasses
import re

import rows as table


@dataclasses.dataclass
class Case:
    name: str
    command: str  # of a shell; %dtc is the binary


def runs_of_tests(top, backend):
    """The RUN lines of the tests that check a program under cuda-emu, for `backend`: step by step and, on a GPU, as graphs."""
    for path in sorted((top / "test").rglob("*")):
        if path.suffix not in (".dt", ".mlir", ".test") or not path.is_file():
            continue
        text = path.read_text(errors="replace").replace("\\\n// RUN:", "")
        for number, line in enumerate(re.findall(r"RUN: (.*)", text)):
            command = line.split("| FileCheck")[0].strip()
            if "--backend cuda-emu" not in command or "--check" not in command or command.startswith("not") or "%t" in command:
                continue
            command = command.replace("2>&1", "").replace("%examples", str(top / "examples")).replace("%s", str(path)).replace("%S", str(path.parent))
            name = f"{path.relative_to(top / 'test')}:{number}"
            if backend == "cuda":
                command = command.replace("--backend cuda-emu", "--backend cuda").replace("--no-emu-checks", "")
            yield Case(name, command)
            if backend == "cuda":
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
    """Loops and branches as conditional nodes of graphs, and with the host that reads the predicates."""
    programs = {"cuda-graphs.dt": ("@loops", ("m=a:1,b:1", "m=a:3,b:2")), "cuda-conditionals.dt": ("@nested", ("m=a:1", "m=a:2"))}
    for name, (entry, meshes) in programs.items() if backend == "cuda" else ():
        for mesh in meshes:
            for how, flags in (("conditional nodes", ""), ("host predicates", "--host-predicates")):
                yield Case(f"{name} {mesh} {how}", f"%dtc run {top}/test/Runtime/{name} --entry {entry} --backend cuda --comm local -O2 --repeat 3 {flags} "
                                                   f"--input '*=randn(1)' --check --mesh {mesh}")


def cases(top, backend, quick):
    found = [*examples(top, backend), *control_flow(top, backend), *models(backend), *runs_of_tests(top, backend)]
    return found[::5] if quick else found


WIDTHS = (1024, 4096, 16384, 65536, 262144)
ELEMENTS = 1 << 26  # of each wide tensor: 128 MiB in bf16, past every cache
SIZE = {"bf16": 2, "f32": 4, "i32": 4}


@dataclasses.dataclass
class KernelRow:
    kind: str  # of bench/rows.py
    width: int
    dtype: str
    target: int  # percent of a copy

    @property
    def name(self):
        return f"{self.kind} {self.dtype} [{ELEMENTS // self.width}, {self.width}]"

    def program(self):
        """(its text, the bytes that must be moved)"""
        base = table.ROWS[self.kind]

        def sized(values):
            return [(n, self.dtype if d == "f32" else d, [self.width if s == table.COLUMNS else s for s in shape]) for n, d, shape in values]

        row = table.Row(sized(base.arguments), base.body, sized(base.results), base.stream, base.differentiated)
        rows = ELEMENTS // self.width
        moved = 0
        for n, dtype, shape in row.arguments + row.results:
            size = SIZE[dtype]
            for s in shape:
                size *= rows if s == "rows" else s
            moved += size * (2 if n in row.differentiated else 1)  # the argument, and its gradient; of a result: it or its gradient
        return row.text(rows).replace("-> (%s: f32[])", f"-> (%s: {self.dtype}[])"), moved

    def order(self):
        return {"row": self.name, "kind": self.kind, "rows": ELEMENTS // self.width, "width": self.width, "dtype": self.dtype}


def kernel_rows(quick):
    widths = WIDTHS[1:2] if quick else WIDTHS
    forward = [KernelRow(kind, width, "bf16", 90) for kind in ("rms_norm", "softmax", "layer_norm", "cross_entropy") for width in widths]
    forward += [KernelRow(kind, 4096, dtype, 90) for kind in ("bias-gelu-residual", "pointwise") for dtype in ("bf16", "f32")]
    forward += [KernelRow(kind, 4096, "f32", 90) for kind in ("rms_norm", "softmax")]
    backward = [KernelRow(kind + "-grad", width, "bf16", 80) for kind in ("rms_norm", "layer_norm", "softmax") for width in widths[:3]]
    return forward + backward


@dataclasses.dataclass
class ModelRow:
    name: str
    arguments: str  # of `dtc model`
    shape: dict

    def order(self):
        return {"row": self.name, "kind": self.shape["kind"], **self.shape}


def model_rows(quick):
    layers = 2 if quick else 12
    gpt = {"kind": "gpt", "layers": layers, "hidden": 768, "heads": 12, "vocab": 50304, "seq": 1024, "batch": 8}
    llama = {"kind": "llama", "layers": layers, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn": 2816, "vocab": 32000, "seq": 1024, "batch": 8}
    found = []
    for shape in (gpt, llama):
        flags = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in shape.items() if k != "kind")
        found.append(ModelRow(f"{shape['kind']} training step, bf16, {layers} layers", f"{shape['kind']} {flags} --dtype bf16 --mode train", shape))
    return found
