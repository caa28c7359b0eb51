"""Diagnosis of failures in bench/gpu.py: a test of each layer first, failures grouped by cause, and the conditions of each cause.
Access to a GPU is rare: the output must suffice to fix the failures."""

import collections
import itertools
import re
import shutil
import tempfile
import pathlib


def gradient(arguments, op):
    """A program that computes the gradients of the sum of squares of an op's result."""
    names, types = re.findall(r"%\w+", arguments), re.findall(r": (\w+\[[^\]]*\])", arguments)
    results = ", ".join(["f32[]", *types])
    return (f"func @f({arguments}) -> (f32[]) {{\n  %y = {op}\n  %w_ = convert %y {{dtype = f32}}\n  %z = mul %w_, %w_\n  %s = mean %z\n  return %s\n}}\n"
            f"func @main({arguments}) -> ({results}) {{\n  %s, {', '.join('%d' + n[1:] for n in names)} = value_and_grad @f({', '.join(names)})\n"
            f"  return %s, {', '.join('%d' + n[1:] for n in names)}\n}}\n")


# One test per layer, from the driver upwards: the first failure identifies the layer. The last ones use what the emulator models least.
LAYERS = {
    "a kernel": ("", "(%x: f32[1000]) -> (%y: f32[1000]) {\n  %y = exp %x\n"),
    "a kernel over rows": ("", "(%x: bf16[300, 4096]) -> (%y: bf16[300, 4096]) {\n  %y = softmax %x {dims = [1]}\n"),
    "a graph": ("-O2 --repeat 3", "(%x: f32[70, 1000]) -> (%y: f32[70, 1000]) {\n  %e = cumsum %x {dim = 1}\n  %y = cumsum %e {dim = 0}\n"),
    "a product, f32": ("", "(%x: f32[96, 64], %w: f32[64, 80]) -> (%y: f32[96, 80]) {\n  %y = matmul %x, %w\n"),
    "a product, bf16, with bias and gelu": ("", "(%x: bf16[96, 64], %w: bf16[80, 64], %b: bf16[80]) -> (%y: bf16[96, 80]) {\n"
                                            "  %m = linear %x, %w, %b\n  %y = gelu %m {approximate = \"tanh\"}\n"),
    "a product, f8": ("", "(%x: f8e4m3[96, 64], %w: f8e4m3[80, 64]) -> (%y: f8e4m3[96, 80]) {\n  %y = matmul %x, %w {transpose_b = true}\n"),
    "a convolution": ("", "(%x: f32[2, 8, 9, 9], %w: f32[16, 8, 3, 3]) -> (%y: f32[2, 16, 7, 7]) {\n  %y = conv %x, %w\n"),
    "attention": ("", "(%q: bf16[2, 4, 128, 64], %k: bf16[2, 4, 128, 64], %v: bf16[2, 4, 128, 64]) -> (%y: bf16[2, 4, 128, 64]) {\n"
                  "  %y = attention %q, %k, %v {causal = true}\n"),
    "a conditional node": ("-O2 --repeat 3", "(%x: f32[64]) -> (%n: i32[], %y: f32[64]) {\n  %n, %y = while (%i = 0 : i32[], %v = %x) {\n"
                           "    %go = lt %i, 5\n    yield %go\n  } {\n    %w = tanh %v\n    %j = add %i, 1\n    yield %j, %w\n  }\n"),
    "a cluster": ("", "(%x: bf16[8, 65536]) -> (%y: bf16[8, 65536]) {\n  %y = softmax %x {dims = [1]}\n"),
    "more than 48 KiB of shared memory": ("", gradient("%x: bf16[64, 16384], %w: bf16[16384], %b: bf16[16384]", "layer_norm %x, %w, %b {dims = [1]}")),
    "tensor cores, own attention": ("--no-cudnn", "(%q: bf16[2, 4, 256, 128], %k: bf16[2, 4, 256, 128], %v: bf16[2, 4, 256, 128]) -> (%y: bf16[2, 4, 256, 128]) {\n"
                                    "  %y = attention %q, %k, %v {causal = true}\n"),
    "tensor cores, own gradient of attention": ("--no-cudnn", gradient("%q: bf16[2, 4, 256, 128], %k: bf16[2, 4, 256, 128], %v: bf16[2, 4, 256, 128]",
                                                                       "attention %q, %k, %v {causal = true}")),
    "a sort over blocks": ("", "(%x: f32[4, 20000]) -> (%i: i32[4, 20000]) {\n  %i = argsort %x {dim = 1}\n"),
    "two devices on one GPU": ("-O2 --repeat 3 --comm local", "(%x: f32[64, 32] @m{_, a}, %w: f32[32, 16] @m{a, _}) -> (%y: f32[64, 16]) {\n  %y = matmul %x, %w\n"),
}
# Run alone, before the others: the first opening of a library of half a gigabyte from a cold disk takes most of a minute.
FIRST = ("a kernel", "a product, f32", "attention")
CUDA_FAULT = re.compile("ILLEGAL_ADDRESS|MISALIGNED|ILLEGAL_INSTRUCTION|LAUNCH_FAILED|HARDWARE_STACK|INVALID_PC|ASSERT")
VARIANTS = (" --no-graphs", " --host-predicates", " --no-overlap", " --no-cudnn", " --reduction-order fixed")


def layers(dtc, pool):
    """{layer: "right (seconds)" or the error}, printed as they finish."""
    with tempfile.TemporaryDirectory() as folder:
        def one(item):
            number, (name, (flags, text)) = item
            file = pathlib.Path(folder) / f"layer{number}.dt"
            if not text.startswith("func"):
                results = ", ".join(re.findall(r"(%\w+):", text.split("->")[1].split("{\n")[0]))
                text = ("mesh @m = [a=2]\n" if "@m" in text else "") + f"func @main{text}  return {results}\n}}\n"
            file.write_text(text)
            code, out, err, seconds = dtc.timed(f"%dtc run {file} --backend cuda --input '*=uniform(1,-0.5,0.5)' --check --stats {flags}",
                                                120 if name in FIRST else 60)
            notes = [line for line in (out + err).splitlines() if "because" in line]
            why = "" if code == 0 else " | ".join(line.strip() for line in error_lines(out, err)[:4])[:900] or f"exit code {code}"
            return name, f"{'WRONG: ' + why if why else 'right'} ({seconds:.1f} s)" + (f"; {notes[0].strip()[:300]}" if notes else "")
        found, numbered = {}, list(enumerate(LAYERS.items()))
        alone = [item for item in numbered if item[1][0] in FIRST]
        for name, said in itertools.chain(map(one, alone), pool.map(one, (item for item in numbered if item not in alone))):
            found[name] = said
            print(f"layer: {name}: {said}", flush=True)
    return found


def error_lines(out, err):
    """The most informative lines: errors, failed results with their reasons, else the last lines."""
    lines = (out + err).splitlines()
    telling = [line for i, line in enumerate(lines) if line.startswith(("error", "internal error")) or ": error: " in line or ": FAILED" in line
               or "first value that differs" in line or (i and ": FAILED" in lines[i - 1])]
    return telling or [line for line in lines if line.strip()][-4:]


def cause(why):
    """The key of a cause: the first line without program-specific parts."""
    first = why.strip().splitlines()[0] if why.strip() else "nothing was said"
    first = re.sub(r"^check \w+: FAILED.*", "a wrong result", first)
    first = re.sub(r"\S*/", "", re.sub(r"\S+(\.(dt|mlir|test)|stdin>):[\d:]+", "PROGRAM:", first))
    first = re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?", "#", first)
    return re.sub(r"'[^']*'", "'...'", first)[:160]


def causes(failed):
    """[(cause, its failures)], the most frequent first."""
    by = collections.defaultdict(list)
    for one in failed:
        by[cause(one["why"])].append(one)
    return sorted(by.items(), key=lambda item: -len(item[1]))


def depends(dtc, command, limit):
    """The flag that makes a failing command pass."""
    right, wrong = [], []
    for flag in VARIANTS:
        if flag in command or ("-O2" not in command and flag in (" --no-graphs", " --host-predicates")):
            continue
        code, out, _, _ = dtc.timed(command + flag, limit)
        (right if code == 0 and "check " in out else wrong).append(flag.strip())
    return ("right with " + ", ".join(right) + "; " if right else "") + ("wrong with " + ", ".join(wrong) if wrong else "")


def sanitized(dtc, command, tool, limit):
    """The output of compute-sanitizer for a command, or ""."""
    if not shutil.which("compute-sanitizer"):
        return ""
    code, out, err, seconds = dtc.timed(command.replace("%dtc run", f"compute-sanitizer --tool {tool} --print-limit 2 %dtc run"), limit)
    lines = [line.removeprefix("========= ") for line in (out + err).splitlines() if line.startswith("=========")]
    lines = [line for line in lines if "Host Frame" not in line and line.strip("= ")]
    return f"compute-sanitizer {tool} ({seconds:.0f} s): " + (" | ".join(lines[1:12])[:900] if lines else f"exit code {code}, nothing said")


def explain(dtc, failed, clock, seconds=70):
    """Prints each cause with one command and its conditions; returns the same for the report. The longest text goes last, where it is visible."""
    found, end = [], clock.spent() + min(seconds, max(0, clock.left() - 20))
    for name, members in causes(failed)[:8]:
        first = min(members, key=lambda m: len(m["command"]))
        entry = {"cause": name, "count": len(members), "example": first["case"], "command": first["command"], "why": first["why"]}
        shell = first["shell"]
        limit = lambda: max(1, min(25, end - clock.spent()))
        if clock.spent() < end - 5 and first["code"] != 137:
            entry["depends"] = depends(dtc, shell, limit())
            code, out, err, _ = dtc.timed(shell + " --log-ops", limit())
            steps = [line for line in err.splitlines() if line.startswith("device ")]
            if code and not any(": FAILED" in line for line in out.splitlines()) and steps:
                entry["last_step"] = steps[-1]
            if clock.spent() < end - 5 and (CUDA_FAULT.search(first["why"]) or name == "a wrong result"):
                entry["sanitizer"] = sanitized(dtc, shell, "memcheck", limit())
        found.append(entry)
    for e in found[::-1]:
        print(f"CAUSE of {e['count']}: {e['cause']}\n  {e['example']}: {e['command']}\n  " + e["why"][:700].replace("\n", "\n  "), flush=True)
        for key in ("depends", "last_step", "sanitizer"):
            if e.get(key):
                print(f"  {key.replace('_', ' ')}: {e[key]}", flush=True)
        others = ", ".join(m["case"] for m in failed if cause(m["why"]) == e["cause"] and m["case"] != e["example"])
        if others:
            print(f"  also: {others[:500]}", flush=True)
    return found
