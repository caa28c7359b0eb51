"""One peer, as a process that reads requests: python bench/peers.py torch|torch.compile|jax|onnxruntime THREADS

A line on standard input is JSON {"row": NAME, "rows": N, "columns": C, "dtype": "f32", "repeat": K}; the answer is a line of JSON, {"ms": [...]} or {"absent": WHY}.
Inputs, shapes and results are those of bench/rows.py; each time includes synchronization. The first line is the peer's version."""

import json
import os
import sys
import time

import numpy as np

import rows as table

NAME, THREADS = sys.argv[1], int(sys.argv[2])


def inputs(row, size):
    """The row's arguments, and dy where it is a gradient; f32 where a peer uses a narrower dtype, to which it casts."""
    random = np.random.default_rng(1)
    given = list(row.arguments)
    if row.differentiated:
        given.append(("dy", *row.results[0][1:]))
    out = []
    for _, dtype, shape in size.of(given):
        if dtype == size.dtype:
            out.append(random.uniform(-1, 1, shape).astype(np.float32))
        else:
            out.append(random.integers(0, 8, shape).astype(np.int32 if dtype == "i32" else np.uint64))
    return out


def adamw_arrays(copies):
    return [np.full(s, v, np.float32) for s in table.ADAMW_SHAPES * copies for v in (0.5, 0.1, 0.0, 0.0)]


class Jax:
    def __init__(self):
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if THREADS > 1 else 'false'} intra_op_parallelism_threads={THREADS}"
        import jax
        import jax.numpy as jnp
        self.jax, self.jnp, self.version = jax, jnp, jax.__version__

    def norm(self, x, w, b, centred):
        jnp = self.jnp
        c = x - jnp.mean(x, -1, keepdims=True) if centred else x
        y = c * self.jax.lax.rsqrt(jnp.mean(c * c, -1, keepdims=True) + 1e-5) * w
        return y + b if centred else y

    def losses(self, x, l):
        return -self.jnp.take_along_axis(self.jax.nn.log_softmax(x), l[:, None], 1)[:, 0]

    def attention(self, q, k, v):
        s = self.jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8
        s = self.jnp.where(self.jnp.tril(self.jnp.ones(s.shape[-2:], bool)), s, -self.jnp.inf)
        return self.jnp.einsum("bhqk,bhkd->bhqd", self.jax.nn.softmax(s), v)

    def function(self, name):
        jax, jnp = self.jax, self.jnp
        plain = {
            "pointwise": lambda x, y: jnp.maximum((x + y) * 0.5 - x, y),
            "bias-gelu-residual": lambda x, y, b: jax.nn.gelu(x + b, approximate=False) + y,
            "softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "gelu": jax.nn.gelu,
            "layer_norm": lambda x, w, b: self.norm(x, w, b, True),
            "rms_norm": lambda x, w: self.norm(x, w, None, False),
            "cross_entropy": self.losses, "column-sum": lambda x: jnp.sum(x, 0),
            "dropout": lambda seed, x: jnp.where(jax.random.bernoulli(jax.random.key(seed[0]), 0.9, x.shape), x / 0.9, 0),
            "attention": self.attention,
        }
        if not name.endswith("-grad"):
            return plain[name]
        base, row = plain[name[:-5]], table.ROWS[name]
        places = [i for i, a in enumerate(row.arguments) if a[0] in row.differentiated]

        def gradient(*given):
            *given, dy = given

            def only(*chosen):
                full = list(given)
                for i, v in zip(places, chosen):
                    full[i] = v
                return base(*full)
            return jax.vjp(only, *[given[i] for i in places])[1](dy)
        return gradient

    def prepare(self, name, size):
        jax, jnp = self.jax, self.jnp
        if name == "adamw":
            def step(a):
                out = []
                for i in range(0, len(a), 4):
                    p, g, m, v = a[i:i + 4]
                    m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
                    out += [p - 0.001 * (m * 1.1 / (jnp.sqrt(v * 1.01) + 1e-8) + 0.01 * p), g, m, v]
                return out
            run = jax.jit(step, donate_argnums=0)
            state = [run([jnp.asarray(a) for a in adamw_arrays(size.rows)])]

            def once():
                state[0] = run(state[0])
                jax.block_until_ready(state[0])
            return once
        narrow = {"f32": jnp.float32, "bf16": jnp.bfloat16}[size.dtype]
        given = [jnp.asarray(a, narrow if a.dtype == np.float32 else None) for a in inputs(table.ROWS[name], size)]
        run = jax.jit(self.function(name))
        return lambda: jax.block_until_ready(run(*given))


class Torch:
    def __init__(self, compiled):
        import torch
        torch.set_num_threads(THREADS)
        self.torch, self.compiled, self.version = torch, compiled, torch.__version__

    def function(self, name):
        torch, f = self.torch, self.torch.nn.functional
        return {
            "pointwise": lambda x, y: torch.maximum((x + y) * 0.5 - x, y),
            "bias-gelu-residual": lambda x, y, b: f.gelu(x + b) + y,
            "softmax": lambda x: f.softmax(x, -1), "log_softmax": lambda x: f.log_softmax(x, -1),
            "gelu": lambda x: f.gelu(x, approximate="tanh"),
            "layer_norm": lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b),
            "rms_norm": lambda x, w: f.rms_norm(x, x.shape[-1:], w, 1e-5),
            "cross_entropy": lambda x, l: f.cross_entropy(x, l, reduction="none"),
            "column-sum": lambda x: torch.sum(x, 0), "dropout": lambda seed, x: f.dropout(x, 0.1),
            "attention": lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        }[name.removesuffix("-grad")]

    def prepare(self, name, size):
        torch = self.torch
        if name == "adamw":
            arrays = [torch.from_numpy(a) for a in adamw_arrays(size.rows)]
            parameters = arrays[0::4]
            for p, g in zip(parameters, arrays[1::4]):
                p.grad = g
            optimizer = torch.optim.AdamW(parameters, lr=0.001, fused=True)
            return optimizer.step
        row = table.ROWS[name]
        narrow = {"f32": torch.float32, "bf16": torch.bfloat16}[size.dtype]
        given = [torch.from_numpy(a).to(narrow if a.dtype == np.float32 else torch.int64) for a in inputs(row, size)]
        run = self.function(name)
        if self.compiled:
            run = torch.compile(run)
        if not row.differentiated:
            def once():
                with torch.no_grad():
                    run(*given)
            return once
        *given, dy = given
        wanted = [g.requires_grad_() for g, a in zip(given, row.arguments) if a[0] in row.differentiated]
        return lambda: torch.autograd.grad(run(*given), wanted, dy)


class OnnxRuntime:
    """Its operators, one for each supported row."""
    GRAPHS = {"softmax": ("Softmax", {"axis": -1}), "log_softmax": ("LogSoftmax", {"axis": -1}), "gelu": ("Gelu", {"approximate": "tanh"}),
              "layer_norm": ("LayerNormalization", {"axis": -1, "epsilon": 1e-5}), "column-sum": ("ReduceSum", {"keepdims": 0})}

    def __init__(self):
        import onnx
        import onnxruntime
        self.onnx, self.ort, self.version = onnx, onnxruntime, onnxruntime.__version__

    def prepare(self, name, size):
        if size.dtype != "f32":
            raise LookupError(f"its operators are not measured in {size.dtype}")
        operator, attributes = self.GRAPHS[name]
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        row = table.ROWS[name]
        shaped = [helper.make_tensor_value_info(a[0], kind, shape) for a, (_, _, shape) in zip(row.arguments, size.of(row.arguments))]
        names, constants = [a[0] for a in row.arguments], []
        if name == "column-sum":
            names.append("axes")
            constants.append(helper.make_tensor("axes", self.onnx.TensorProto.INT64, [1], [0]))
        out = helper.make_tensor_value_info("z", kind, None)
        graph = helper.make_graph([helper.make_node(operator, names, ["z"], **attributes)], "g", shaped, [out], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for a, value in zip(row.arguments, inputs(row, size)):
            binding.bind_cpu_input(a[0], value)
        shape = size.of(row.results)[0][2]
        binding.bind_ortvalue_output("z", self.ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)))
        return lambda: session.run_with_iobinding(binding)


def main():
    import_only = {"jax": Jax, "torch": lambda: Torch(False), "torch.compile": lambda: Torch(True), "onnxruntime": OnnxRuntime}
    peer, ready = import_only[NAME](), {}
    print(json.dumps({"version": peer.version}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        key = (order["row"], table.Size(order["rows"], order["columns"], order["dtype"]))
        try:
            if key not in ready:
                ready.clear()  # the arrays of one row at a time
                ready[key] = peer.prepare(*key)
                for _ in range(2):
                    ready[key]()
            times = []
            for _ in range(order["repeat"]):
                begin = time.perf_counter()
                ready[key]()
                times.append((time.perf_counter() - begin) * 1e3)
            print(json.dumps({"ms": times}), flush=True)
        except Exception as why:  # a row that this peer lacks or cannot run
            print(json.dumps({"absent": f"{type(why).__name__}: {why}"[:200]}), flush=True)


if __name__ == "__main__":
    main()
