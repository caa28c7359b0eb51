"""The compiler's time is linear in the program: ten times the ops take at most sixteen times the processor time.

Uses the processor time of the process, the minimum of several runs per size: other work on the machine makes caches and memory
slower by tens of percent, not by factors. Quadratic behavior shows as a factor of thirty or more."""

import resource

MOST = 16  # measured: 9 to 14; large programs leave the caches
TRIES = 5


def chain(ops):
    """A straight-line program with this many ops, differentiated."""
    lines = ["func @f(%x: f32[4, 8], %w: f32[4, 8]) -> (f32[]) {", "  %v0 = mul %x, %w"]
    for i in range(1, ops):
        lines.append(f"  %v{i} = " + (f"mul %v{i - 1}, %w", f"tanh %v{i - 1}", f"add %v{i - 1}, %x")[i % 3])
    lines += [f"  %s = sum %v{ops - 1}", "  return %s", "}", "",
              "func @main(%x: f32[4, 8], %w: f32[4, 8]) -> (f32[], f32[4, 8], f32[4, 8]) {",
              "  %s, %dx, %dw = value_and_grad @f(%x, %w)", "  return %s, %dx, %dw", "}"]
    return "\n".join(lines) + "\n"


def axes(count):
    """A mesh with this many axes, along all of which a dim is sharded and a sum is pending."""
    names = [f"a{i}" for i in range(count)]
    half = count // 2
    return (f"mesh @m = [{', '.join(f'{a}=1' for a in names)}, b=2]\n"
            f"func @main(%x: f32[8] @m{{({', '.join(names[:half])}, b) | sum({', '.join(names[half:])})}}) -> (f32[8]) {{\n"
            f"  %y = local (%p = %x @m{{({', '.join(reversed(names[:half]))}, b)}}) {{\n"
            f"    %q = all_gather %p {{axes = [{', '.join(names)}, b], dim = 0}}\n    yield %q\n  }} : f32[8] @m{{_}}\n"
            "  return %y\n}\n")


def functions(count):
    """This many functions without callers."""
    return "mesh @m = [a=2]\n" + "".join(
        f"func @f{i}(%x: f32[8] @m{{a}}) -> (f32[]) {{\n  %s = sum %x\n  return %s\n}}\n" for i in range(count))


def pieces(count):
    """One op with this many operands and one with this many results, along a sharded dim."""
    results = ", ".join(f"%r{i}" for i in range(count))
    return (f"mesh @m = [a=2]\nfunc @main(%x: f32[8] @m{{a}}, %z: f32[{count}, 8] @m{{_, a}}) -> (f32[], f32[1, 8]) {{\n"
            f"  %c = concat {', '.join(['%x'] * count)} {{dim = 0}}\n  %s = sum %c\n"
            f"  {results} = split %z {{sizes = [{', '.join(['1'] * count)}], dim = 0}}\n  return %s, %r0\n}}\n")


def llama(context, layers):
    """A training step on a mesh of 16,384 devices."""
    made = context.run(context.dtc, "model", "llama", "--size", "405b", "--layers", layers, "--mode", "train",
                       "--parallel", "dp=16,fsdp=16,cp=8,tp=8,sp")
    return made.stdout


def seconds(context, command, text):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = context.run(context.dtc, *command, "-", text=text, limit=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None, done.stderr[-2000:]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ""


def complaint(times, small, large, name):
    """`times` of (small, large) so far; None if the ratio of the minima is within the bound."""
    ratio = min(t[1] for t in times) / max(min(t[0] for t in times), 1e-3)
    if ratio <= MOST:
        return None
    return f"{name}: {large} take {ratio:.0f} times the processor time of {small}"


def check(context):
    local = ["opt", "-p", "propagate,partition,optimize-collectives"]
    cases = [
        ("axes", local, axes(3000), axes(30000), "3,000 axes", "30,000 axes"),
        ("functions", local, functions(300), functions(3000), "300 functions", "3,000 functions"),
        ("pieces", local, pieces(150), pieces(1500), "150 operands and results", "1,500 operands and results"),
        ("autodiff", ["opt", "-p", "autodiff"], chain(3000), chain(30000), "3,000 ops", "30,000 ops"),
        ("text to schedule", ["compile", "--emit", "schedule"], llama(context, 15), llama(context, 150), "15 layers", "150 layers"),
        ("parse and print", ["opt"], llama(context, 60), llama(context, 600), "60 layers", "600 layers"),
    ]
    for name, command, small, large, few, many in cases:
        times, why = [], "the program is empty"
        for _ in range(TRIES if small else 0):
            pair = [seconds(context, command, text) for text in (small, large)]
            why = "".join(stderr for _, stderr in pair)
            if why:
                break
            times.append([time for time, _ in pair])
            why = complaint(times, few, many, name)
            if not why:
                break
        if why:
            context.failed(f"linear {name}", why)
        else:
            context.passed()
