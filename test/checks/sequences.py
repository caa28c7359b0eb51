"""No order of passes crashes: every pass alone, every pass after each stage of the standard pipeline, and random sequences.

The programs contain constructs that only some passes support: recompute, complex values, loops, branches, custom functions,
local regions, collectives, calls. A sequence must end with a valid program, or with an ordinary diagnostic; the result is run,
with the same two outcomes. Every prefix of the standard pipeline must succeed, except for programs with hand-written groups.

The sequences are derived from the program's name: DTC_SEQUENCES_SEED=N changes them, DTC_SEQUENCES=N sets their number."""

import os
import random
import re
from concurrent.futures import ThreadPoolExecutor

SEED = os.environ.get("DTC_SEQUENCES_SEED", "1")
RANDOM = int(os.environ.get("DTC_SEQUENCES", "12"))
STANDARD = []  # the passes of the standard pipeline, from `dtc opt --pipeline`
OTHERS = ["specialize", "unroll", "if-to-select", "fix-reduction-order", "recompute"]

BY_HAND = ("fused", "fused complex")  # groups that 'fuse' would not create
PROGRAMS = {
    "recompute": """
mesh @m = [a=2]
func @main(%x: f32[4, 6] @m{a, _}) -> (%y: f32[4, 6]) {
  %t = recompute (%a = %x) {
    %q = tanh %a
    yield %q
  }
  %y = add %t, %x
  return %y
}""",
    "recompute only": """
func @main(%x: f32[5, 6]) -> (%t: f32[5, 6]) {
  %t = recompute (%a = %x) {
    %q = tanh %a
    yield %q
  }
  return %t
}""",
    "recompute gradient": """
mesh @m = [a=2]
func @loss(%w: f32[6, 3], %x: f32[4, 6]) -> (f32[]) {
  %t = recompute (%ww = %w, %xx = %x) {
    %h = matmul %xx, %ww
    %q = tanh %h
    yield %q
  }
  %m = mean %t
  return %m
}
func @main(%w: f32[6, 3], %xs: f32[2, 4, 6] @m{_, a, _}) -> (%g: f32[6, 3]) {
  %z = full {value = 0.0} : f32[6, 3]
  %g = for %i in 0..2 (%acc = %z) {
    %l, %dw = value_and_grad @loss(%w, %xs[%i]) {wrt = [0]}
    %sum = add %acc, %dw
    yield %sum
  }
  return %g
}""",
    "complex": """
func @main(%z: c64[4]) -> (%y: c64[4]) {
  %y = exp %z
  return %y
}""",
    "complex loop": """
mesh @m = [a=2]
func @main(%z: c64[4] @m{a}, %n: i32[]) -> (%y: c64[4], %s: f32[]) {
  %y = for %i in 0..%n (%c = %z) {
    %e = recompute (%r = %c) {
      %q = mul %r, %z
      yield %q
    }
    yield %e
  }
  %re = real %y
  %s = sum %re {dims = [0]}
  return %y, %s
}""",
    "complex local": """
mesh @m = [a=2]
spmd func @main(%z: c64[2] of c64[4] @m{a}) -> (%y: c64[2] of c64[4] @m{a}) {
  %y = recompute (%a = %z) {
    %e = mul %a, %a : c64[2]
    yield %e
  } : c64[2]
  return %y
}""",
    "control": """
mesh @m = [a=2]
func @main(%x: f32[8] @m{a}, %b: bool[], %n: i32[]) -> (%y: f32[8], %k: i32[]) {
  %c = cond %b {
    %p = exp %x
    yield %p
  } {
    %q = recompute (%r = %x) {
      %u = neg %r
      yield %u
    }
    yield %q
  }
  %y, %k = while (%v = %c, %i = 0 : i32[]) {
    %lt = lt %i, %n
    yield %lt
  } {
    %w = mul %v, %x
    %j = add %i, 1
    yield %w, %j
  }
  return %y, %k
}""",
    "calls": """
mesh @m = [a=2]
func @twice(%x: f32[4]) -> (f32[4]) {grad = @twice_grad} {
  %t = recompute (%a = %x) {
    %y = mul %a, 2.0
    yield %y
  }
  return %t
}
func @twice_grad(%x: f32[4], %d: f32[4]) -> (f32[4]) {
  %y = mul %d, 2.0
  return %y
}
func @loss(%x: f32[4], %z: c64[4]) -> (f32[]) {
  %t = call @twice(%x)
  %a = abs %z
  %p = mul %t, %a
  %s = sum %p {dims = [0]}
  return %s
}
func @main(%x: f32[4] @m{a}, %z: c64[4]) -> (%l: f32[], %dx: f32[4]) {
  %l, %dx = value_and_grad @loss(%x, %z) {wrt = [0]}
  return %l, %dx
}""",
    "custom": """
mesh @m = [a=2]
func @main(%x: f32[4] @m{a}) -> (%z: f32[4]) {
  %e = recompute (%p = %x) {
    %q = exp %p
    yield %q
  }
  %z = custom %e {target = "scale", rule = "([i])->([i]) {i=4}"} : f32[4]
  return %z
}""",
    "local": """
mesh @m = [a=2]
func @main(%x: f32[8] @m{a}) -> (%y: f32[8]) {
  %y = local (%p = %x @m{a}) {
    %s = sum %p {dims = [0]}
    %r = all_reduce %s {axes = [a]}
    %q = recompute (%u = %p) {
      %e = exp %u
      yield %e
    }
    %o = mul %q, %r
    yield %o
  } : f32[8] @m{a}
  return %y
}""",
    "collectives": """
mesh @m = [a=2]
spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %r = recompute (%a = %x) {
    %g = all_reduce %a {axes = [a]} : f32[4]
    %e = exp %g : f32[4]
    yield %e
  } : f32[4]
  %f = neg %r : f32[4]
  return %f
}""",
    "fused": """
mesh @m = [a=2]
spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %r = recompute (%a = %x) {
    %e = exp %a : f32[4]
    yield %e
  } : f32[4]
  %f = fused (%p = %r) {kind = "pointwise"} {
    %n = neg %p : f32[4]
    yield %n
  } : f32[4]
  return %f
}""",
    "fused complex": """
mesh @m = [a=2]
spmd func @main(%x: c64[4] of c64[8] @m{a}) -> (%y: c64[4] of c64[8] @m{a}) {
  %f = fused (%p = %x) {kind = "pointwise"} {
    %n = neg %p : c64[4]
    yield %n
  } : c64[4]
  return %f
}""",
    "pending": """
mesh @m = [a=2]
func @main(%x: f32[8] @m{_ | sum(a)}, %w: f32[8, 4] @m{a, _}) -> (%y: f32[4]) {
  %n = neg %x
  %r = reshard %n : @m{a}
  %u = reshape %r {shape = [1, 8]}
  %v = matmul %u, %w
  %y = reshape %v {shape = [4]}
  return %y
}""",
}


def sequences(name):
    draw = random.Random(f"{SEED} {name}")
    every = STANDARD + OTHERS
    yield from ([p] for p in every)
    for done in range(1, len(STANDARD) + 1):
        yield STANDARD[:done]
        yield from (STANDARD[:done] + [p] for p in draw.sample(every, 4))
    essential = ["propagate", "partition", "fuse", "plan-memory"]
    for dropped in range(len(STANDARD)):
        yield STANDARD[:dropped] + STANDARD[dropped + 1 :]
    for done in range(1, len(essential) + 1):
        yield essential[:done]
    for _ in range(RANDOM):
        yield [draw.choice(every) for _ in range(draw.randrange(2, 5))]
        yield sorted(draw.sample(STANDARD, draw.randrange(3, 9)), key=STANDARD.index)


def wrong(done):
    """The reason why this outcome is a failure, or nothing."""
    if done.returncode == 0 or (done.returncode == 1 and "error: " in done.stderr):
        return None
    return f"exit code {done.returncode}\n{done.stderr[-1500:]}"


def complaint(context, name, passes):
    text = PROGRAMS[name]
    opt = ["opt", "-", "--verify-each", "-p", ",".join(passes)]
    left = context.run(context.dtc, *opt, text=text)
    if why := wrong(left):
        return f"dtc {' '.join(opt)}: {why}"
    standard = passes == STANDARD[: len(passes)] and name not in BY_HAND
    if left.returncode:
        return f"dtc {' '.join(opt)}: a prefix of the standard pipeline fails\n{left.stderr[-1500:]}" if standard else None
    run = ["run", "-", "--input", "*=const(1)"]
    done = context.run(context.dtc, *run, text=left.stdout)
    why = wrong(done)
    if standard and done.returncode and name != "custom":
        why = f"what a part of the standard pipeline leaves does not run\n{done.stderr[-1500:]}"
    return f"dtc {' '.join(opt)} | dtc {' '.join(run)}: {why}" if why else None


def check(context):
    pipeline = context.run(context.dtc, "opt", "--pipeline").stdout.strip()
    STANDARD[:] = re.split(r",(?![^{]*\})", pipeline)  # not at the commas between options
    with ThreadPoolExecutor(2) as pool:
        for name in PROGRAMS:
            tried = list({tuple(s): s for s in sequences(name)}.values())
            bad = [why for why in pool.map(lambda s: complaint(context, name, s), tried) if why]
            for why in bad[:3]:
                context.failed(f"sequences {name}", why)
            context.passed(len(tried) - len(bad))
