"""The programs that bench/cpu.py measures: name -> Row. Peers (bench/peers.py) have a function of the same name for each.

Sizes and the float dtype come from a Size: placeholders are "rows" and "columns" in a shape, and "float" as a dtype."""

import dataclasses

ADAMW_SHAPES = [(1024, 1024), (1024,), (4096,), (1024, 256), (256,)]  # of the updated tensors, repeated


@dataclasses.dataclass(frozen=True)
class Size:
    rows: int
    columns: int = 4096
    dtype: str = "f32"

    def of(self, values):
        """(name, dtype, shape) of each value, with this size's numbers."""
        names = {"rows": self.rows, "columns": self.columns}
        return [(n, self.dtype if d == "float" else d, [names.get(s, s) for s in shape]) for n, d, shape in values]


@dataclasses.dataclass
class Row:
    arguments: list  # (name, dtype, shape)
    body: str
    results: list  # (name, dtype, shape)
    stream: str  # the mixture of reads and writes of its bandwidth limit (bench/streams.cpp)
    differentiated: list = dataclasses.field(default_factory=list)  # arguments whose gradients are the result
    memory_bound: bool = True

    def text(self, size):
        def types(values):
            return ", ".join(f"%{n}: {d}[{', '.join(map(str, shape))}]" for n, d, shape in size.of(values))

        if not self.differentiated:
            returned = ", ".join("%" + n for n, _, _ in self.results)
            return f"func @main({types(self.arguments)}) -> ({types(self.results)}) {{\n{self.body}  return {returned}\n}}\n"
        # sum(f(x) * dy), whose gradient at x is the backward pass with cotangent dy
        name, dtype, shape = self.results[0]
        names = [n for n, _, _ in self.arguments]
        wrt = [names.index(n) for n in self.differentiated]
        gradients = [(f"d_{n}", *next(a[1:] for a in self.arguments if a[0] == n)) for n in self.differentiated]
        arguments = self.arguments + [("dy", dtype, shape)]
        given = ", ".join("%" + n for n, _, _ in arguments)
        inner = f"func @f({types(arguments)}) -> (%s: {size.dtype}[]) {{\n{self.body}  %weighted = mul %{name}, %dy\n  %s = sum %weighted\n  return %s\n}}\n"
        taken = ", ".join("%" + n for n, _, _ in gradients)
        return inner + (f"\nfunc @main({types(arguments)}) -> ({types(gradients)}) {{\n"
                        f"  %s, {taken} = value_and_grad @f({given}) {{wrt = {wrt}}}\n  return {taken}\n}}\n")


WIDE, VECTOR = ["rows", "columns"], ["columns"]
X, Y, W, B = ("x", "float", WIDE), ("y", "float", WIDE), ("w", "float", VECTOR), ("b", "float", VECTOR)
Z = [("z", "float", WIDE)]
SIMPLE = {
    "softmax": ([X], "  %z = softmax %x {dims = [1]}\n"),
    "log_softmax": ([X], "  %z = log_softmax %x {dims = [1]}\n"),
    "layer_norm": ([X, W, B], "  %z = layer_norm %x, %w, %b {dims = [1]}\n"),
    "rms_norm": ([X, W], "  %z = rms_norm %x, %w {dims = [1]}\n"),
    "gelu": ([X], "  %z = gelu %x {approximate = \"tanh\"}\n"),
}

ROWS = {
    "pointwise": Row([X, Y], "  %a = add %x, %y\n  %c = mul %a, 0.5\n  %d = sub %c, %x\n  %z = max %d, %y\n", Z, "triad"),
    "bias-gelu-residual": Row([X, Y, B], "  %a = add %x, %b\n  %g = gelu %a\n  %z = add %g, %y\n", Z, "triad"),
    **{name: Row(args, body, Z, "copy") for name, (args, body) in SIMPLE.items()},
    "cross_entropy": Row([X, ("l", "i32", ["rows"])], "  %z = cross_entropy %x, %l\n", [("z", "float", ["rows"])], "read"),
    "column-sum": Row([X], "  %z = sum %x {dims = [0]}\n", [("z", "float", VECTOR)], "read"),
    "dropout": Row([("seed", "u64", [2]), X], "  %z = dropout %seed, %x {p = 0.1}\n", Z, "copy"),
    **{f"{name}-grad": Row(args, body, Z, "triad", [a[0] for a in args]) for name, (args, body) in SIMPLE.items()},
    "cross_entropy-grad": Row([X, ("l", "i32", ["rows"])], "  %z = cross_entropy %x, %l\n", [("z", "float", ["rows"])], "copy", ["x"]),
    "attention": Row([(n, "float", [2, 8, "rows", 64]) for n in "qkv"], "  %z = attention %q, %k, %v {causal = true}\n",
                     [("z", "float", [2, 8, "rows", 64])], "copy", memory_bound=False),
}


def adamw(copies):
    """One AdamW step over len(ADAMW_SHAPES) * copies tensors, in place."""
    shapes = [list(s) for s in ADAMW_SHAPES * copies]
    arguments = [(f"{kind}{i}", shape) for i, shape in enumerate(shapes) for kind in "pgmv"]
    results = [(f"{kind}{i}", shape) for i, shape in enumerate(shapes) for kind in "pmv"]
    lines = []
    for i in range(len(shapes)):
        lines += [f"  %m1_{i} = mul %m{i}, 0.9", f"  %g1_{i} = mul %g{i}, 0.1", f"  %nm{i} = add %m1_{i}, %g1_{i}",
                  f"  %gg{i} = mul %g{i}, %g{i}", f"  %v1_{i} = mul %v{i}, 0.999", f"  %g2_{i} = mul %gg{i}, 0.001",
                  f"  %nv{i} = add %v1_{i}, %g2_{i}", f"  %mh{i} = mul %nm{i}, 1.1", f"  %vh{i} = mul %nv{i}, 1.01",
                  f"  %r{i} = sqrt %vh{i}", f"  %e{i} = add %r{i}, 1e-8", f"  %q{i} = div %mh{i}, %e{i}",
                  f"  %wd{i} = mul %p{i}, 0.01", f"  %u{i} = add %q{i}, %wd{i}", f"  %s{i} = mul %u{i}, 0.001", f"  %np{i} = sub %p{i}, %s{i}"]
    given = ", ".join(f"%{n}: f32{s}" for n, s in arguments)
    made = ", ".join(f"%{n}: f32{s} {{carry = true}}" for n, s in results)
    returned = ", ".join(f"%n{n}" for n, _ in results)
    return f"func @main({given}) -> ({made}) {{\n" + "\n".join(lines) + f"\n  return {returned}\n}}\n"
