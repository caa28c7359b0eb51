"""Only lib/Ops knows an op by its name: everything else asks the op's record (docs/architecture.md, "One op, one record").

A comparison of a name with an op's name, a lookup of an op by its name, and a table whose rows begin with names of ops
are errors outside of lib/Ops, except for those below."""

import re

# (file, ops, reason). Each op of the list must occur in the file.
EXCEPTIONS = [
    ("lib/Api/CompileOptions.cpp", "recompute any local", "names and values of flags"),
    ("lib/IR/build/Builder.cpp", "constant", "the one op that code below lib/Ops makes"),
    ("lib/Passes/complex/SplitComplex.cpp", "real imag complex select", "finds the ops that this pass and partition have made at the ends of a function"),
    ("lib/Passes/autodiff/GradientSweep.cpp", "scatter index_select", "matches ops that the sweep itself has made"),
    ("lib/Report/audit/AuditModule.cpp", "dynamic_slice", "a slice at a device's own offset is its shard, as for all_slice"),
    ("lib/StableHlo/import/CountedLoops.cpp", "select", "matches the wrapped index that JAX writes"),
    ("lib/StableHlo/import/HloConstants.cpp", "reshape concat convert", "folds the constants that say what another op does"),
    ("lib/StableHlo/import/HloConvolution.cpp", "flip", "matches the gradient that JAX writes"),
    ("lib/StableHlo/import/HloManualResults.cpp", "broadcast_from all_slice", "makes results equal, or addends, that JAX declares so"),
    ("lib/StableHlo/import/HloReduce.cpp", "iota", "matches the argmax that JAX writes"),
    ("lib/StableHlo/import/Import.cpp", "custom", "lists the calls of unknown functions"),
    ("lib/StableHlo/import/IndexRanges.cpp", "add sub mul neg min max clamp select lt le gt ge iota argmax argmin argsort",
     "interval arithmetic: which values an integer can have"),
    ("lib/StableHlo/import/LoopCount.cpp", "and ne lt le gt ge add sub broadcast", "matches the condition and the step of a counted loop"),
    ("lib/StableHlo/import/LoopValues.cpp", "dynamic_update_slice dynamic_slice reshape broadcast expand_dims",
     "matches the rows that a loop of JAX reads and writes"),
    ("lib/Torch/aten/Index.cpp", "mean prod sum add", "compares PyTorch's names of reductions"),
    ("lib/StableHlo/sharding/DeviceNumber.cpp", "convert div rem", "matches the arithmetic on the number of a device"),
    ("lib/StableHlo/import/ShardyFollow.cpp", "custom", "calls of unknown functions have no results to constrain"),
    ("tools/dtc/Explain.cpp", "recompute", "the name of a pass"),
]
# Folders whose tables have the names of other formats.
FOREIGN = ("lib/Cuda/ptx/", "lib/StableHlo/mlir/", "lib/StableHlo/import/", "lib/StableHlo/sharding/", "lib/Onnx/import/", "lib/Support/Aliases.cpp")
# Code that may name ops, and code whose names are those of MLIR ops.
OWN = ("lib/Ops/", "include/dtc/Ops/", "lib/StableHlo/mlir/", "lib/StableHlo/sharding/Gspmd")
ROWS = 3  # fewer rows are no table


def patterns(ops):
    name = r'(?:std::string_view\()?"(%s)"' % "|".join(sorted(ops))
    compared = r"(?<!fn->)(?<!\bp\.)\b(?:name|name_|op|op_)\)*"
    return [re.compile(compared + r"\s*[=!]=\s*" + name), re.compile(name + r"\)?\s*[=!]=\s*\S*\b(?:name_?|op_?)\b"),
            re.compile(r"(?<!\.kind = m\.)(?<!\.kind = m_\.)(?<!makeOp\(m\.)(?<!makeOp\(m_\.)\b(?:registry|ops)_?(?:->|\.)find\((?:OpName\()?" + name),
            re.compile(r"(?<!\bp\.)\b(?:isOp|named|oneOf)\((?:[^()\"]|\([^()]*\))*,?\s*" + name)]


def found_in(text, ops, compared):
    """(line, op) of every comparison, lookup and table row in the text of a file."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"//.*$", "", line)
        for pattern in compared:
            for match in pattern.finditer(code):
                yield number, match[1]
        if "ExportRow" in code:
            rows = None  # the exporter's own table: Export.cpp checks the names
        if rows is not None:
            rows += [(number, op) for op in re.findall(r'\{"(\w+)",', code) if op in ops]
        if code.rstrip().endswith("};"):
            if rows and len({op for _, op in rows}) >= ROWS:
                yield from rows
            rows = []


def check(context):
    ops = set(re.findall(r"^### `(\w+)`", (context.root / "docs/ops.md").read_text(), re.M))
    compared = patterns(ops)
    allowed = {(path, op): False for path, names, _ in EXCEPTIONS for op in names.split()}
    for path in context.files("lib/*.cpp", "lib/*.h", "include/*.h", "tools/*.cpp", "tools/*.h"):
        if path.startswith(OWN):
            continue
        tables = set() if path.startswith(FOREIGN) else ops
        wrong = []
        for line, op in found_in((context.root / path).read_text(errors="replace"), tables, compared):
            if (path, op) in allowed:
                allowed[path, op] = True
            elif op in ops:
                wrong.append(f"line {line}: '{op}'")
        if wrong:
            context.failed(f"opnames {path}", "; ".join(wrong) + ": add a column to OpRecord, or an exception with a reason")
        else:
            context.passed()
    for (path, op), used in allowed.items():
        if not used:
            context.failed("opnames", f"{path} does not name '{op}' any more: remove the exception")
