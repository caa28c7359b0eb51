"""A scheduled text edited by hand runs as edited, or is refused with an error at a line: no crash, no internal error, no wrong result.

Random edits of scheduled programs, on the CPU and on cuda-emu: moved, deleted and repeated steps, other offsets, streams, kinds and
operands, and ops put into regions. What runs is compared with the evaluator, which executes the same text."""

import random
import re
from concurrent.futures import ThreadPoolExecutor

PROGRAM = """mesh @m = [a=2]

func @main(%x: f32[8, 16] @m{_, a}, %w: f32[16, 16] @m{a, _}, %v: f32[16, 8] @m{_, _}, %p: bool[] @m{})
    -> (%y: f32[8, 8] @m{_, _}, %l: f32[8] @m{_}, %t: f32[16] @m{a}, %o: f32[8, 8] @m{_, _}) {
  %h = matmul %x, %w
  %g = gelu %h
  %y0 = matmul %g, %v
  %y = softmax %y0 {dims = [-1]}
  %e = exp %x
  %t0 = sum %e {dims = [0]}
  %t = log %t0
  %s0 = sum %y {dims = [1]}
  %c = cumsum %s0 {dim = 0}
  %l = for %i in 0..3 (%q = %c) {
    %q1 = mul %q, 0.5
    %q2 = add %q1, %s0
    yield %q2
  }
  %o = cond %p {
    %n = transpose %y {perm = [1, 0]}
    yield %n
  } {
    %u = flip %y {dims = [0]}
    yield %u
  }
  return %y, %l, %t, %o
}
"""

# Ops of each category, on a value %V of two dims.
OPS = [
    "exp %V", "add %V, %V", "mul %V, 2.0", "sum %V {dims = [0]}", "max %V {dims = [1], keepdim = true}", "softmax %V {dims = [0]}",
    "layer_norm %V {dims = [1]}", "transpose %V {perm = [1, 0]}", "reshape %V {shape = [4, 16]}", "flip %V {dims = [0]}",
    "slice %V {start = [0, 0], limit = [4, 4]}", "concat %V, %V {dim = 0}", "cumsum %V {dim = 0}", "argmax %V {dim = 0}", "triu %V",
    "all_reduce %V {axes = [a]}", "all_reduce_start %V {axes = [a]}", "matmul %V, %V", "einsum %V, %V {spec = \"ij,kj->ik\"}",
    "cholesky %V", "constant {value = 1.0} : f32[8, 8]", "axis_index {axes = [a]}", "print %V", "index_select %V, 0 {dim = 0}",
]
KINDS = ["pointwise", "view", "copy", "row", "rows", "reduce", "columns", "gemm", "attention", "ordered", "whole"]


def statements(lines):
    """The spans [begin, end) of statements, those in blocks too."""
    spans = []
    for i, line in enumerate(lines):
        if not re.match(r" +(%|print|return|yield)", line) or line.lstrip().startswith(("return", "yield")):
            continue
        indent, end = len(line) - len(line.lstrip()), i + 1
        if line.endswith("{"):
            while end < len(lines) - 1 and not (lines[end].startswith(" " * indent + "}") and not lines[end].endswith("{")):
                end += 1
            end += 1
        spans.append((i, end))
    return spans


def block_of(lines, line):
    """The span of the block that this line is in."""
    def inside(i):
        return len(lines[i]) - len(lines[i].lstrip()) >= indent
    indent, begin, end = len(lines[line]) - len(lines[line].lstrip()), line, line + 1
    while begin > 0 and inside(begin - 1):
        begin -= 1
    while end < len(lines) and inside(end):
        end += 1
    return begin, end


def edit(rng, lines):
    """One edit, in place."""
    begin, end = rng.choice(statements(lines))
    first, last = block_of(lines, begin)
    step = lines[begin:end]
    names = re.findall(r"%\w+", "\n".join(lines[first:last]))
    what = rng.randrange(9)
    if what < 3:  # a step is moved within its block, deleted, or repeated under another name
        if what != 2:
            del lines[begin:end]
            last -= end - begin
        if what == 2:
            step[0] = re.sub(r"%\w+", "%again", step[0], count=1)
        if what != 1:
            lines[(at := rng.choice([s[0] for s in statements(lines) if first <= s[0] < last] or [begin])):at] = step
        return
    fields = {
        3: (r"(?<=at = \[)\d+", lambda: str(rng.choice([0, 32, 64, 1280, 1536, 2304, -64]))),
        4: (r"%\w+", lambda: rng.choice(names)),
        5: (r'kind = "\w+"', lambda: f'kind = "{rng.choice(KINDS)}"'),
        6: (r"at = \[", lambda: rng.choice(["at = [64, ", "stream = 1, at = ["])),
    }
    if what in fields:
        pattern, by = fields[what]
        at = rng.choice([i for i, line in enumerate(lines) if re.search(pattern, line)])
        found = rng.choice(list(re.finditer(pattern, lines[at])))
        lines[at] = lines[at][: found.start()] + by() + lines[at][found.end() :]
        return
    if what == 7:
        at = next(i for i, line in enumerate(lines) if "streams = " in line)
        lines[at] = re.sub(r"streams = \d", f"streams = {rng.randrange(4)}", lines[at])
        return
    inner = [i for i, line in enumerate(lines) if line.startswith("    ") and "= fused" not in line and " = " in line and ":" in line]
    at = rng.choice(inner)  # an op is put before another one, which may read it
    value = rng.choice(re.findall(r"%\w+", lines[at]))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, indent + "%new = " + rng.choice(OPS).replace("%V", value))
    if rng.random() < 0.7:
        lines[at + 1] = lines[at + 1].replace(value, "%new")
        lines[at + 1] = lines[at + 1].rpartition(" : ")[0] or lines[at + 1]


def complaint(context, seed, backend, text):
    rng = random.Random(seed)
    lines = text.splitlines()
    for _ in range(1 + (rng.random() < 0.3)):
        edit(rng, lines)
    edited = "\n".join(lines) + "\n"
    command = ["run", "-", "--input", "*=randn(1)", "--input", "p=const(1)", "--backend", backend, "--check"]
    done = context.run(context.dtc, *command, text=edited, limit=120)
    said = done.stdout + done.stderr
    refused = done.returncode == 1 and re.search(r"error: .*\[[a-z-]+\]", said) and "check " not in done.stdout
    return done.returncode, "" if done.returncode == 0 or refused else f"edit {seed} on {backend}: exit code {done.returncode}: {said[-600:]}\n{edited}"


def check(context):
    texts = {}
    for backend, target in (("cpu", "cpu"), ("cuda-emu", "sm_90a")):
        compiled = context.run(context.dtc, "compile", "-", "--emit", "schedule", "--target", target, text=PROGRAM)
        if compiled.returncode:
            context.failed("edited", f"dtc compile: exit code {compiled.returncode}\n{compiled.stderr[-1200:]}")
            return
        texts[backend] = compiled.stdout
    tasks = [(seed, backend, texts[backend]) for seed in range(600 if context.only else 60) for backend in texts]
    ran = 0
    with ThreadPoolExecutor(2) as pool:
        for code, why in pool.map(lambda t: complaint(context, *t), tasks):
            ran += code == 0
            if why:
                context.failed("edited", why)
            else:
                context.passed()
    context.note(f"{len(tasks)} edited programs: {ran} run as edited, {len(tasks) - ran} refused")
    if ran * 10 < len(tasks) or ran * 10 > 9 * len(tasks):
        context.failed("edited", "the edits test only one of the two outcomes")
