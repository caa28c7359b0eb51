"""One peer on the GPU: python bench/gpu_peers.py torch.compile|jax [max-autotune] [cpu]

`cpu`: on the CPU, to try this script itself.

Lines on standard input are orders of bench/gpu_cases.py; answers are lines of JSON, {"row", "ms", "how"} or {"row", "absent"}; the first line is the
peer's version. A time is the median of several runs. Torch: between events on the device, after a memset that takes longer than the host needs to
enqueue the run, which is a captured graph where it can be captured: otherwise the time would be the host's. JAX: ten runs, then one synchronization."""

import json
import statistics
import sys
import time


FLUSH = 128 << 20  # bytes; 50 us on an H100, and larger than L2


class Torch:
    def __init__(self, device, mode):
        import torch
        if device == "cuda" and not torch.cuda.is_available():
            sys.exit(1)
        import torch._functorch.config
        torch._functorch.config.donated_buffer = False  # a backward pass is run repeatedly
        self.torch, self.version, self.device, self.mode = torch, torch.__version__, device, mode

    def kernel(self, kind, order):
        torch, f, width = self.torch, self.torch.nn.functional, order.get("width")
        dtype = {"bf16": torch.bfloat16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn}[order["dtype"]]
        def wide():
            return torch.rand(shape, device=self.device).mul_(0.9).add_(0.1).to(dtype)

        def vector():
            return torch.rand(width, device=self.device).to(dtype)
        if "sizes" in order:
            return self.op(kind, dtype, order["sizes"])
        shape, labels = (order["rows"], width), torch.randint(0, 8, (order["rows"],), device=self.device)
        return {
            "pointwise": (lambda x, y: torch.maximum((x + y) * 0.5 - x, y), [wide(), wide()]) if kind == "pointwise" else None,
            "bias-gelu-residual": (lambda x, y, b: f.gelu(x + b) + y, [wide(), wide(), vector()]) if kind == "bias-gelu-residual" else None,
            "softmax": (lambda x: f.softmax(x, -1), [wide()]) if kind == "softmax" else None,
            "layer_norm": (lambda x, w, b: f.layer_norm(x, (width,), w, b), [wide(), vector(), vector()]) if kind == "layer_norm" else None,
            "rms_norm": (lambda x, w: f.rms_norm(x, (width,), w, 1e-5), [wide(), vector()]) if kind == "rms_norm" else None,
            "cross_entropy": (lambda x: f.cross_entropy(x, labels, reduction="none"), [wide()]) if kind == "cross_entropy" else None,
        }[kind]

    def op(self, kind, dtype, s):
        """The rows of gpu_cases.op_rows: (function, operands)."""
        torch, f = self.torch, self.torch.nn.functional

        def tensor(*shape):
            return torch.rand(shape, device=self.device).mul_(0.9).add_(0.1).to(dtype)
        if kind.startswith("conv"):
            x, w = tensor(s["n"], s["c"], s["size"], s["size"]), tensor(s["c"], s["c"], 3, 3)
            return {
                "conv": (lambda x, w: f.conv2d(x, w, padding=1), [x, w]),
                "conv-data": (lambda w, dy: torch.nn.grad.conv2d_input(x.shape, w, dy, padding=1), [w, x]),
                "conv-filter": (lambda x, dy: torch.nn.grad.conv2d_weight(x, w.shape, dy, padding=1), [x, x.clone()])}[kind]
        if kind.startswith("matmul"):
            torch.backends.cuda.matmul.allow_tf32 = kind == "matmul-tf32"
            x, w = tensor(s["m"], s["k"]), tensor(s["n"], s["k"])
            if dtype != torch.float8_e4m3fn:
                return lambda x, w: x @ w.T, [x, w]
            one = torch.ones((), device=self.device)
            return lambda x, w: torch._scaled_mm(x, w.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16), [x, w]
        if kind == "grouped_matmul":
            ends = torch.arange(1, s["groups"] + 1, device=self.device, dtype=torch.int32) * (s["tokens"] // s["groups"])
            return lambda x, w: torch._grouped_mm(x, w, offs=ends), [tensor(s["tokens"], s["k"]), tensor(s["groups"], s["k"], s["n"])]
        if kind == "decode":
            keys = (s["batch"], s["key_heads"], s["seq"], s["size"])
            return (lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True),
                    [tensor(s["batch"], s["heads"], 1, s["size"]), tensor(*keys), tensor(*keys)])
        if kind.startswith("attention"):
            return lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True), [tensor(s["batch"], s["heads"], s["seq"], s["size"]) for _ in "qkv"]
        return {"cumsum": lambda x: x.cumsum(1), "cumsum-columns": lambda x: x.cumsum(0), "argmax": lambda x: x.argmax(1),
                "topk": lambda x: torch.topk(x, s.get("k", 1), 1), "sort": lambda x: torch.sort(x, 1)}[kind.removesuffix("-long")], [tensor(s["rows"], s["width"])]

    def model(self, o):
        torch, f, bf16 = self.torch, self.torch.nn.functional, self.torch.bfloat16
        h, heads, kv = o["hidden"], o["heads"], o.get("kv_heads", o["heads"])
        gpt, size = o["kind"] == "gpt", o["hidden"] // o["heads"]
        p = {}

        def weight(name, *shape):
            p[name] = torch.randn(shape, device=self.device).mul_(0.02).to(bf16).requires_grad_()
        weight("emb", o["vocab"], h)
        weight("pos", o["seq"], h) if gpt else weight("head", h, o["vocab"])
        for i in range(o["layers"]):
            inner = 4 * h if gpt else o["ffn"]
            for n, shape in (("n1", [h]), ("n2", [h]), ("q", [h, h]), ("k", [h, kv * size]), ("v", [h, kv * size]), ("o", [h, h]), ("up", [h, inner]), ("down", [inner, h])):
                weight(f"{i}{n}", *shape)
            for n, shape in (("n1b", [h]), ("n2b", [h]), ("qb", [h]), ("kb", [h]), ("vb", [h]), ("ob", [h]), ("upb", [inner]), ("downb", [h])) if gpt else (("gate", [h, inner]),):
                weight(f"{i}{n}", *shape)
        weight("n", h)
        weight("nb", h)
        tokens = torch.randint(0, o["vocab"], (o["batch"], o["seq"]), device=self.device)
        labels = torch.randint(0, o["vocab"], (o["batch"] * o["seq"],), device=self.device)
        angles = torch.arange(o["seq"], device=self.device)[:, None] * 10000 ** (-torch.arange(0, size, 2, device=self.device) / size)
        sin, cos = torch.sin(angles), torch.cos(angles)

        def rope(x):
            a, b = x.float().chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(bf16)

        def norm(x, n):
            return f.layer_norm(x, (h,), p[n], p[n + "b"]) if gpt else f.rms_norm(x, (h,), p[n], 1e-5)

        def loss():
            x = p["emb"][tokens]
            x = x + p["pos"] if gpt else x
            for i in range(o["layers"]):
                n = norm(x, f"{i}n1")
                q, k, v = (n @ p[f"{i}{w}"] for w in "qkv")
                if gpt:
                    q, k, v = q + p[f"{i}qb"], k + p[f"{i}kb"], v + p[f"{i}vb"]
                q, k, v = (t.view(o["batch"], o["seq"], -1, size).transpose(1, 2) for t in (q, k, v))
                if not gpt:
                    q, k = rope(q), rope(k)
                a = f.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv != heads)
                a = a.transpose(1, 2).reshape(o["batch"], o["seq"], h) @ p[f"{i}o"]
                x = x + (a + p[f"{i}ob"] if gpt else a)
                n = norm(x, f"{i}n2")
                up = n @ p[f"{i}up"]
                up = f.gelu(up + p[f"{i}upb"], approximate="tanh") if gpt else f.silu(n @ p[f"{i}gate"]) * up
                down = up @ p[f"{i}down"]
                x = x + (down + p[f"{i}downb"] if gpt else down)
            x = norm(x, "n")
            logits = x @ (p["emb"].T if gpt else p["head"])
            return f.cross_entropy(logits.float().view(-1, o["vocab"]), labels)
        compiled = torch.compile(loss, dynamic=False, mode=self.mode)
        used = [w for n, w in p.items() if gpt or n != "nb"]

        def step():
            gradients = torch.autograd.grad(compiled(), used)
            with torch.no_grad():
                torch._foreach_add_(used, gradients, alpha=-0.01)
        return step

    def prepare(self, o):
        torch = self.torch
        torch._dynamo.reset()  # otherwise a second shape would compile the function for dynamic shapes
        if "layers" in o:
            return self.model(o)
        kind = o["kind"]
        run, given = self.kernel(kind.removesuffix("-grad"), o)
        run = torch.compile(run, dynamic=False, mode=self.mode)
        if not kind.endswith("-grad"):
            def once():
                with torch.no_grad():
                    run(*given)
            return once
        for g in given:
            g.requires_grad_()
        y = run(*given)
        dy = torch.rand_like(y)
        if kind.startswith("attention"):  # dtc's row computes forward, too: it needs the log-sum-exp
            return lambda: torch.autograd.grad(run(*given), given, dy)
        # Measures the backward pass alone, as in the byte count of the row.
        return lambda: torch.autograd.grad(y, given, dy, retain_graph=True)

    def milliseconds(self, once, repeat, whole):
        """(the median time, how it was measured). `whole`: a training step, which is long enough without a graph, as torch.compile's users run it."""
        torch = self.torch
        if self.device == "cpu":
            times = []
            for _ in range(repeat + 3):
                begin = time.perf_counter()
                once()
                times.append((time.perf_counter() - begin) * 1000)
            return statistics.median(times[3:]), "on the CPU"
        run, how = (once, "") if whole else self.captured(once)
        flush, times = torch.empty(FLUSH * (1 if how == "graph" else 4), dtype=torch.uint8, device=self.device), []
        for _ in range(repeat + 3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times[3:]), how

    def captured(self, once):
        torch = self.torch
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    once()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                once()
            return graph.replay, "graph"
        except Exception:  # what cannot be captured is timed as it is
            torch.cuda.synchronize()
            return once, "launches"

    def forget(self):
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


class Jax:
    def __init__(self, device, _):
        import jax
        import jax.numpy as jnp
        if jax.default_backend() != ("gpu" if device == "cuda" else "cpu"):
            sys.exit(1)
        self.jax, self.jnp, self.version = jax, jnp, jax.__version__

    def prepare(self, o):
        jax, jnp = self.jax, self.jnp
        if "layers" in o:
            return self.model(o)
        dtype = {"bf16": jnp.bfloat16, "f32": jnp.float32, "f8e4m3": jnp.float8_e4m3fn}[o["dtype"]]
        keys = iter(jax.random.split(jax.random.key(1), 8))

        def tensor(*shape):
            return jax.random.uniform(next(keys), shape, jnp.float32, 0.1, 1).astype(dtype)
        if "sizes" in o:
            function, given = self.op(o["kind"], o["sizes"], tensor)
            run = jax.jit(function)
            return lambda: run(*given)
        labels = jax.random.randint(next(keys), (o["rows"],), 0, 8)

        def norm(x, w, b, centred):
            x = x.astype(jnp.float32)
            c = x - jnp.mean(x, -1, keepdims=True) if centred else x
            y = c * jax.lax.rsqrt(jnp.mean(c * c, -1, keepdims=True) + 1e-5) * w
            return ((y + b) if centred else y).astype(dtype)
        functions = {
            "pointwise": (lambda x, y: jnp.maximum((x + y) * 0.5 - x, y), "ww"),
            "bias-gelu-residual": (lambda x, y, b: jax.nn.gelu(x + b, approximate=False) + y, "wwv"),
            "softmax": (lambda x: jax.nn.softmax(x.astype(jnp.float32)).astype(dtype), "w"),
            "layer_norm": (lambda x, w, b: norm(x, w, b, True), "wvv"), "rms_norm": (lambda x, w: norm(x, w, None, False), "wv"),
            "cross_entropy": (lambda x: -jnp.take_along_axis(jax.nn.log_softmax(x.astype(jnp.float32)), labels[:, None], 1)[:, 0], "w"),
        }
        function, kinds = functions[o["kind"].removesuffix("-grad")]
        given = [tensor(o["rows"], o["width"]) if k == "w" else tensor(o["width"]) for k in kinds]
        if o["kind"].endswith("-grad"):
            dy = tensor(o["rows"], o["width"])
            run = jax.jit(lambda *a: jax.vjp(function, *a)[1](dy))
        else:
            run = jax.jit(function)
        return lambda: run(*given)

    def op(self, kind, s, tensor):
        """The rows of gpu_cases.op_rows: (function, operands)."""
        jax, jnp = self.jax, self.jnp

        def conv(x, w):
            return jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))
        if kind.startswith("conv"):
            x, w = tensor(s["n"], s["c"], s["size"], s["size"]), tensor(s["c"], s["c"], 3, 3)
            return {"conv": (conv, [x, w]), "conv-data": (lambda x, w, dy: jax.vjp(lambda a: conv(a, w), x)[1](dy)[0], [x, w, x]),
                    "conv-filter": (lambda x, w, dy: jax.vjp(lambda b: conv(x, b), w)[1](dy)[0], [x, w, x])}[kind]
        if kind.startswith("matmul"):
            how = "TF32_TF32_F32" if kind == "matmul-tf32" and jax.default_backend() == "gpu" else "highest"
            x, w = tensor(s["m"], s["k"]), tensor(s["n"], s["k"])
            wide = jnp.bfloat16 if x.dtype == jnp.float8_e4m3fn else x.dtype
            return lambda x, w: jax.lax.dot_general(x, w, (((1,), (1,)), ((), ())), how, wide), [x, w]
        if kind == "grouped_matmul":
            sizes = jnp.full((s["groups"],), s["tokens"] // s["groups"], jnp.int32)
            return lambda x, w: jax.lax.ragged_dot(x, w, sizes), [tensor(s["tokens"], s["k"]), tensor(s["groups"], s["k"], s["n"])]
        if kind == "decode":
            keys = (s["batch"], s["seq"], s["key_heads"], s["size"])
            return jax.nn.dot_product_attention, [tensor(s["batch"], 1, s["heads"], s["size"]), tensor(*keys), tensor(*keys)]
        if kind.startswith("attention"):
            def attention(q, k, v):
                return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn" if jax.default_backend() == "gpu" else "xla")
            given = [tensor(s["batch"], s["seq"], s["heads"], s["size"]) for _ in "qkv"]
            return (attention, given) if not kind.endswith("-grad") else (lambda *a: jax.vjp(attention, *a)[1](a[0]), given)
        return {"cumsum": lambda x: jnp.cumsum(x, 1), "cumsum-columns": lambda x: jnp.cumsum(x, 0), "argmax": lambda x: jnp.argmax(x, 1),
                "topk": lambda x: jax.lax.top_k(x, s.get("k", 1)), "sort": lambda x: jax.lax.sort_key_val(x, jax.lax.broadcasted_iota(jnp.int32, x.shape, 1))
                }[kind.removesuffix("-long")], [tensor(s["rows"], s["width"])]

    def model(self, o):
        jax, jnp, bf16 = self.jax, self.jnp, self.jnp.bfloat16
        h, heads, kv, gpt = o["hidden"], o["heads"], o.get("kv_heads", o["heads"]), o["kind"] == "gpt"
        size, keys, p = h // heads, iter(jax.random.split(jax.random.key(1), 1024)), {}

        def weight(name, *shape):
            p[name] = (jax.random.normal(next(keys), shape) * 0.02).astype(bf16)
        weight("emb", o["vocab"], h)
        weight("pos", o["seq"], h) if gpt else weight("head", h, o["vocab"])
        inner = 4 * h if gpt else o["ffn"]
        for i in range(o["layers"]):
            for n, shape in (("n1", [h]), ("n2", [h]), ("q", [h, h]), ("k", [h, kv * size]), ("v", [h, kv * size]), ("o", [h, h]), ("up", [h, inner]), ("down", [inner, h])):
                weight(f"{i}{n}", *shape)
            for n, shape in (("n1b", [h]), ("n2b", [h]), ("qb", [h]), ("kb", [h]), ("vb", [h]), ("ob", [h]), ("upb", [inner]), ("downb", [h])) if gpt else (("gate", [h, inner]),):
                weight(f"{i}{n}", *shape)
        weight("n", h)
        if gpt:
            weight("nb", h)
        tokens = jax.random.randint(next(keys), (o["batch"], o["seq"]), 0, o["vocab"])
        labels = jax.random.randint(next(keys), (o["batch"], o["seq"]), 0, o["vocab"])
        angles = jnp.arange(o["seq"])[:, None] * 10000.0 ** (-jnp.arange(0, size, 2) / size)
        sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]

        def rope(x):
            a, b = jnp.split(x.astype(jnp.float32), 2, -1)
            return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1).astype(bf16)

        def norm(p, x, n):
            wide = x.astype(jnp.float32)
            c = wide - wide.mean(-1, keepdims=True) if gpt else wide
            y = c * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * p[n]
            return (y + p[n + "b"] if gpt else y).astype(bf16)

        def loss(p):
            x = p["emb"][tokens]
            x = x + p["pos"] if gpt else x
            for i in range(o["layers"]):
                n = norm(p, x, f"{i}n1")
                q, k, v = (n @ p[f"{i}{w}"] + (p[f"{i}{w}b"] if gpt else 0) for w in "qkv")
                q, k, v = (t.reshape(o["batch"], o["seq"], -1, size) for t in (q, k, v))
                if not gpt:
                    q, k = rope(q), rope(k)
                how = "cudnn" if jax.default_backend() == "gpu" else "xla"
                a = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=how).reshape(o["batch"], o["seq"], h) @ p[f"{i}o"]
                x = x + (a + p[f"{i}ob"] if gpt else a)
                n = norm(p, x, f"{i}n2")
                up = n @ p[f"{i}up"]
                up = jax.nn.gelu(up + p[f"{i}upb"], approximate=True) if gpt else jax.nn.silu(n @ p[f"{i}gate"]) * up
                down = up @ p[f"{i}down"]
                x = x + (down + p[f"{i}downb"] if gpt else down)
            x = norm(p, x, "n")
            logits = (x @ (p["emb"].T if gpt else p["head"])).astype(jnp.float32)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()
        update = jax.jit(lambda p: jax.tree.map(lambda w, g: w - 0.01 * g, p, jax.grad(loss)(p)), donate_argnums=0)
        state = [p]

        def step():
            state[0] = update(state[0])
            return state[0]
        return step

    def milliseconds(self, once, repeat, whole):
        times, count = [], 3 if whole else 10
        for _ in range(repeat + 3):
            begin = time.perf_counter()
            for _ in range(count):
                out = once()
            self.jax.block_until_ready(out)
            times.append((time.perf_counter() - begin) * 1000 / count)
        return statistics.median(times[3:]), ""

    def forget(self):
        self.jax.clear_caches()


def main():
    given = sys.argv[1:]
    device, mode = "cpu" if "cpu" in given else "cuda", "max-autotune" if "max-autotune" in given else None
    peer = {"torch.compile": Torch, "jax": Jax}[given[0]](device, mode)
    print(json.dumps({"version": peer.version}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            milliseconds, how = peer.milliseconds(peer.prepare(order), 9, "layers" in order)
            answer = {"row": order["row"], "ms": milliseconds, "how": how}
        except Exception as e:  # any exception of a peer makes the row absent, and the next one is tried
            answer = {"row": order["row"], "absent": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300]}
        peer.forget()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
