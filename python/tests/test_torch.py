"""PyTorch: tensors and torch.compile. Skipped without PyTorch."""

import tempfile
import unittest

import dtc
import numpy as np
from programs import MATMUL, dtc_backend, importable, unary


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class Torch(unittest.TestCase):
    def test_values(self):
        import torch

        f = dtc.compile(MATMUL)
        x, w = torch.randn(4, 3), torch.randn(5, 3).T
        y = f(x, w)
        self.assertIsInstance(y, torch.Tensor)
        torch.testing.assert_close(y, x @ w)
        bf = torch.randn(4).bfloat16()
        self.assertTrue(torch.equal(dtc.compile(unary("neg", "bf16"))(bf), -bf))

    def test_arguments_of_reports(self):
        import torch

        f = dtc.compile("func @main(%x: bf16[4], %s: bf16[]) -> (%y: bf16[4]) {\n  %y = mul %x, %s\n  return %y\n}\n")
        for s in (2.0, torch.tensor(2.0, dtype=torch.bfloat16), torch.tensor(2.0, dtype=torch.bfloat16, requires_grad=True)):
            self.assertIn("mul", str(f.stats(torch.ones(4, dtype=torch.bfloat16), s)))
        g = dtc.compile(MATMUL)
        self.assertIn("matmul", str(g.stats(torch.ones(4, 3, requires_grad=True), torch.ones(5, 3).T)))

    def test_out_that_requires_gradients(self):
        import torch

        f, x = dtc.compile(unary("neg")), torch.ones(4)
        y = torch.zeros(4, requires_grad=True)
        with self.assertRaisesRegex(dtc.UsageError, r"out\[0\] requires gradients"):
            f(x, out=[y])
        f(x, out=[y.detach()])
        with torch.no_grad():
            f(x, out=[y])
        self.assertEqual(y.tolist(), [-1] * 4)

    def test_flags(self):
        """Negation and conjugation that only PyTorch knows."""
        import torch

        c = torch.tensor([1 + 2j, 3 - 4j, 5j, 6]).conj()
        torch.testing.assert_close(dtc.compile(unary("neg", "c64"))(c), -c)
        self.assertTrue(c.imag.is_neg())
        torch.testing.assert_close(dtc.compile(unary("neg"))(c.imag), -c.imag)
        torch.testing.assert_close(torch.compile(lambda a: a * 2, backend=dtc_backend())(c), c * 2)
        with self.assertRaisesRegex(TypeError, "cannot be written"):
            dtc.compile(unary("neg"))(torch.ones(4), out=[c.imag])

    def test_without_memory(self):
        import torch

        f = dtc.compile(unary("neg"))
        for tensor in (torch.empty(4, device="meta"), torch.ones(4).to_sparse()):
            with self.assertRaisesRegex(TypeError, "'x' has no memory that dtc can read: [^\n]*$"):
                f(tensor)

    def test_number_of_threads(self):
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(3)
        f = dtc.compile(MATMUL)
        self.assertEqual(torch.get_num_threads(), 3)
        f(torch.randn(4, 3), torch.randn(3, 5))
        self.assertEqual(torch.get_num_threads(), 3)
        torch.set_num_threads(before)

    def test_torch_compile(self):
        import copy

        import torch

        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        eager = copy.deepcopy(model)
        compiled = torch.compile(model, backend="dtc" if "dtc" in torch._dynamo.list_backends() else dtc_backend())
        losses = []
        for call, parameters in ((compiled, model.parameters()), (eager, eager.parameters())):
            optimizer = torch.optim.SGD(parameters, lr=0.1)
            generator = torch.Generator().manual_seed(1)
            losses.append([])
            for _ in range(10):
                x = torch.randn(6, 4, generator=generator)
                y = torch.randint(0, 3, (6,), generator=generator)
                loss = torch.nn.functional.cross_entropy(call(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
        np.testing.assert_allclose(*losses, rtol=1e-5)
        torch.testing.assert_close(model[1].running_mean, eager[1].running_mean)

    def test_border(self):
        """Tensors cross without copies: transposed weights, saved activations, gradients; arguments are returned."""
        import copy
        import gc

        import dtc.torch
        import torch
        from dtc.torch import _backend

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 24)

            def forward(self, x, transposed):
                q, k, v = self.second(torch.nn.functional.gelu(self.first(x))).chunk(3, -1)
                return (torch.softmax(q @ k.T, -1) @ v) * transposed.T, x

        model = Model()
        eager, x, transposed = copy.deepcopy(model), torch.randn(6, 8), torch.randn(8, 6)
        call = torch.compile(model, backend=dtc.torch.backend)
        for m, f in ((eager, eager), (model, call)):
            y, same = f(x, transposed)
            y.square().sum().backward()
        self.assertEqual(same.data_ptr(), x.data_ptr())
        torch.testing.assert_close(y, eager(x, transposed)[0])
        for p, expected in zip(model.parameters(), eager.parameters()):
            torch.testing.assert_close(p.grad, expected.grad)
        executables = [g._static for g in gc.get_objects() if type(g) is _backend._Graph]
        self.assertGreaterEqual(len(executables), 2)
        self.assertEqual([e.copied_bytes for e in executables if e.copied_bytes], [])

    def test_dropout(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.5))
        call = torch.compile(model, backend=dtc_backend())
        x = torch.randn(8, 4)
        torch.manual_seed(3)
        first, second = call(x), call(x)
        torch.manual_seed(3)
        torch.testing.assert_close(call(x), first)
        self.assertFalse(torch.equal(first, second))
        first.sum().backward()
        kept = (first != 0).float()
        torch.testing.assert_close(model[0].bias.grad, 2 * kept.sum(0))
        torch.testing.assert_close(first, 2 * kept * model[0](x))

    def test_tensors_of_the_graph(self):
        import torch

        weights = torch.tensor([1.0, 2.0, 3.0])
        call = torch.compile(lambda x: x * weights + torch.tensor([3.0, 4.0, 5.0]), backend=dtc_backend())
        torch.testing.assert_close(call(torch.ones(2, 3)), torch.tensor([[4.0, 6.0, 8.0]] * 2))

    def test_names_of_dims(self):
        import tempfile

        import torch
        from torch.export import Dim

        class Model(torch.nn.Module):
            def forward(self, x, pair):
                return x @ pair["y"].T

        batch = Dim("batch")
        shapes = {"x": {0: batch}, "pair": {"y": {0: Dim("rows", max=9), 1: Dim.STATIC}}}
        given = torch.randn(4, 3), {"y": torch.randn(5, 3)}
        program = torch.export.export(Model(), given, dynamic_shapes=shapes)
        f = dtc.compile(program)
        torch.testing.assert_close(f(given[0], given[1]["y"]), Model()(*given))
        for flags in (f._source.flags, ["--dim", "batch=3", "--dim", "rows=5"]):
            self.assertIn("does not communicate", dtc.command(["explain", f._source.name, *flags]))
        with tempfile.TemporaryDirectory() as folder:
            dtc.torch.save(program, folder + "/m.pt2")
            self.assertIn("%x: f32[batch, 3], %pair_y: f32[rows, 3]", dtc.command(["import", folder + "/m.pt2"]))
            loaded = torch.export.load(folder + "/m.pt2")
            torch.testing.assert_close(loaded.module()(*given), Model()(*given))

    def test_dynamic_sizes(self):
        import torch

        call = torch.compile(lambda x: torch.softmax(x, -1).T, backend=dtc_backend(), dynamic=True)
        for rows in (3, 5, 3):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(call(x), torch.softmax(x, -1).T)

    def test_sums_of_sizes(self):
        """Sums of three sizes are one torch.sym_sum, which PyTorch's format of files does not have."""
        import torch

        class Joined(torch.nn.Module):
            def forward(self, a, b, c):
                return torch.arange(torch.sym_sum([a.shape[0], b.shape[0], c.shape[0]])) * torch.cat([a, b, c])

        call = torch.compile(Joined(), backend=dtc_backend(), dynamic=True)
        rows = [{0: torch.export.Dim(name)} for name in "pqr"]
        exported = None
        for sizes in ((2, 3, 4), (5, 2, 3)):
            tensors = [torch.randn(n) for n in sizes]
            exported = exported or dtc.compile(torch.export.export(Joined(), tuple(tensors), dynamic_shapes=tuple(rows)))
            for f in (call, exported):
                torch.testing.assert_close(f(*tensors), Joined()(*tensors))

    def test_what_files_cannot_hold(self):
        import torch

        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        added = graph.call_function(torch.ops.aten.add.Tensor, (x, {1: 2}))
        for node in (x, added):
            node.meta["val"] = torch.ones(3)
        added.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    y = x + z'
        graph.output((added,))
        with self.assertRaisesRegex(dtc.ProgramError, "^model.py:7: error: unsupported op 'aten.add.Tensor': a .pt2 file"):
            dtc_backend()  # which imports dtc.torch
            dtc.torch.compile_graph(torch.fx.GraphModule(torch.nn.Module(), graph))

    def test_sizes_of_a_backward_pass(self):
        """The saved tensors have sizes such as 3 s - 3, and none has the size s."""
        import torch

        embedding, head = torch.nn.Embedding(20, 4), torch.nn.Linear(4, 20)

        def loss(x):
            logits = head(embedding(x[:, :-1])).flatten(0, 1)
            return torch.nn.functional.cross_entropy(logits, x[:, 1:].flatten())

        def joined(x):
            return torch.cat([x, x[1:]]).tanh().sum()

        for f, arguments in (
            (loss, [torch.randint(0, 20, (3, n)) for n in (6, 7, 9)]),
            (joined, [torch.randn(n, 2).requires_grad_() for n in (3, 4, 6)]),
        ):
            call = torch.compile(f, backend=dtc_backend())
            for x in arguments:
                sources = [x] if x.requires_grad else [head.weight, embedding.weight]
                for got, want in zip(torch.autograd.grad(call(x), sources), torch.autograd.grad(f(x), sources)):
                    torch.testing.assert_close(got, want)

    def test_symbolic_strides(self):
        import torch

        call = torch.compile(lambda x: 2 * x, backend=dtc_backend())
        x = torch.arange(48.0).reshape(6, 8)
        for view in (x, x[:, :3], x[1::2, ::3], x.T, x[:, 0], x[:, 2], torch.arange(4.0), torch.arange(8.0)[::2]):
            torch.testing.assert_close(call(view), 2 * view)

    def test_attention_of_all_dtypes_and_masks(self):
        import torch

        bounds = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
        cases = [("none", False), ("none", True), ("bool", False), ("own", False), ("f32", False)]
        for dtype, (kind, causal) in ((d, c) for d in bounds for c in cases):
            q, k, v = (torch.randn(2, heads, 8, 16, dtype=dtype, requires_grad=True) for heads in (4, 2, 2))
            mask = {"none": None, "bool": torch.rand(8, 8) > 0.3, "own": torch.randn(8, 8).to(dtype), "f32": torch.randn(8, 8)}[kind]
            if kind == "f32" and dtype == torch.float64:
                continue
            upstream = torch.randn(2, 4, 8, 16).to(dtype)

            def attend(q, k, v):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True
                )

            torch._dynamo.reset()
            found = []
            for f in (torch.compile(attend, backend=dtc_backend(), fullgraph=True), attend):
                y = f(q, k, v)
                found.append((y, *torch.autograd.grad(y, (q, k, v), upstream)))
            for got, want in zip(*found):
                self.assertEqual(got.dtype, want.dtype)
                error = (got.double() - want.double()).norm() / want.double().norm()
                self.assertLess(float(error), bounds[dtype], f"{dtype}, mask {kind}, causal {causal}")

    def test_random_numbers_in_a_checkpointed_region(self):
        import torch
        from torch.utils.checkpoint import checkpoint

        def dropped(x):
            return checkpoint(lambda y: torch.nn.functional.dropout(y.exp(), 0.5), x, use_reentrant=False)

        x = torch.randn(64, 8, requires_grad=True)
        y = torch.compile(dropped, backend=dtc_backend(), fullgraph=True)(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())  # of the same mask
        self.assertTrue(0 < int((y == 0).sum()) < y.numel())

    def test_higher_order_ops(self):
        """cond, with a gradient; switch and attention with a function of scores, which files cannot hold."""
        import torch
        from torch.nn.attention.flex_attention import flex_attention

        def conditional(x):
            return torch.cond(x.sum() > 0, lambda x: (x.cos(),), lambda x: (x.sin() * 2,), [x])[0]

        for sign in (1, -1):
            x = (torch.rand(3) * sign).requires_grad_()
            y = torch.compile(conditional, backend=dtc_backend(), fullgraph=True)(x)
            torch.testing.assert_close(y, conditional(x))
            (dx,) = torch.autograd.grad(y.sum(), x)
            torch.testing.assert_close(dx, torch.autograd.grad(conditional(x).sum(), x)[0])

        left, right = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def modules(x):
            return torch.cond(x.sum() > 0, lambda x: left(x).sin(), lambda x: right(x).cos(), (x,))

        x = torch.randn(2, 3)
        y = torch.compile(modules, backend=dtc_backend(), fullgraph=True)(x)
        torch.testing.assert_close(y, modules(x))
        got, want = (torch.autograd.grad(r.sum(), left.weight, allow_unused=True)[0] for r in (y, modules(x)))
        torch.testing.assert_close(got, want)

        def attention(q, k, v):
            return flex_attention(q, k, v, lambda score, b, h, q, k: score - (q - k).abs() * (h + 1))

        q, k, v = torch.randn(3, 2, 3, 8, 4)
        scores = q @ k.mT / 2
        place = torch.arange(8)
        bias = (place[:, None] - place).abs() * torch.tensor([1, 2, 3])[:, None, None]
        want = torch.softmax(scores - bias, -1) @ v
        torch.testing.assert_close(torch.compile(attention, backend=dtc_backend(), fullgraph=True)(q, k, v), want)
        try:
            from torch._higher_order_ops.switch import switch
        except ImportError:  # of a newer PyTorch
            return

        def chosen(i, x):
            return switch(i, (lambda x: (x.cos(),), lambda x: (x.sin(),), lambda x: (x.abs(),)), [x])[0]

        x = torch.randn(4)
        for i, f in enumerate((torch.cos, torch.sin, torch.abs)):
            torch._dynamo.reset()
            got = torch.compile(chosen, backend=dtc_backend(), fullgraph=True)(torch.tensor(i), x)
            torch.testing.assert_close(got, f(x))

    def test_rows(self):
        """Results and gradients of ops that are compositions."""
        import torch
        import torch.nn.functional as F

        def given(*shape):
            return torch.randn(*shape, requires_grad=True)

        index, offsets = torch.tensor([0, 2, 2, 1, 3, 0]), torch.tensor([0, 2, 2])
        samples, lengths = torch.rand(2, 3, 2), torch.tensor([2, 0, 3])
        cases = [
            (lambda t: F.embedding_bag(index, t, offsets, mode="sum"), given(4, 5)),
            (lambda t: F.embedding_bag(index, t, offsets, mode="mean", padding_idx=2), given(4, 5)),
            (lambda t: F.embedding_bag(index, t, offsets, mode="max"), given(4, 5)),
            (lambda x: F.fractional_max_pool2d(x, 2, output_size=(3, 4), _random_samples=samples), given(2, 3, 7, 9)),
            (lambda x: torch.segment_reduce(x, "mean", lengths=lengths), given(5, 2)),
            (lambda x: torch.segment_reduce(x, "prod", lengths=lengths), given(5)),
            (lambda x: torch.stft(x, 8, 3, window=torch.hann_window(8), return_complex=True).abs(), given(2, 40)),
            (lambda x: torch.special.gammainc(torch.tensor([0.5, 2.0, 30.0]), x.abs() * 10), given(3)),
            (torch.special.airy_ai, torch.linspace(-20, 9, 64)),
            (lambda x: torch.gradient(x, spacing=0.5, edge_order=2)[0], torch.randn(6, 4)),
            (lambda x: torch.searchsorted(torch.tensor([1.0, 2.0]), x), torch.tensor([0.5, 1.0, float("nan")])),
        ]
        for i, (f, x) in enumerate(cases):
            with self.subTest(i=i):
                torch._dynamo.reset()
                got, want = torch.compile(f, backend=dtc_backend(), fullgraph=True)(x), f(x)
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
                if x.requires_grad:
                    g = torch.randn_like(want)
                    dx, = torch.autograd.grad(got, x, g)
                    torch.testing.assert_close(dx, torch.autograd.grad(want, x, g)[0], rtol=1e-4, atol=1e-5)

    def test_random_slopes(self):
        import torch

        x = torch.randn(1000)
        y = torch.compile(lambda x: torch.nn.functional.rrelu(x, 0.1, 0.3, True), backend=dtc_backend(), fullgraph=True)(x)
        slopes = (y / x)[x < 0]
        torch.testing.assert_close(y[x > 0], x[x > 0])
        self.assertTrue(((slopes > 0.0999) & (slopes < 0.3001)).all() and slopes.std() > 0.03)

    def test_modes(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).eval()
        x = torch.randn(5, 4)
        modes = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
        choices = [{"mode": mode} for mode in modes]
        choices += [{"options": o} for o in ({"opt_level": 0}, {"max_autotune": True}, {"triton.cudagraphs": False})]
        for choice in choices:
            torch._dynamo.reset()
            with torch.no_grad():
                y = torch.compile(model, backend=dtc_backend(), **choice)(x)
            torch.testing.assert_close(y, model(x))
        for choice, message in (
            ({"mode": "fastest"}, "mode='fastest': expected one of 'default', 'reduce-overhead'"),
            ({"options": {"optlevel": 1}}, "'optlevel': .* did you mean 'opt_level'"),
            ({"options": {"epilogue_fusion": True}}, "dtc has no such option"),
        ):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, message):
                torch.compile(model, backend=dtc_backend(), **choice)(x)

    def test_freezing(self):
        """Parameters are read again after PyTorch has written to them."""
        import torch

        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.conv = torch.nn.Linear(6, 5), torch.nn.Conv2d(2, 3, 3, padding=1)
                self.register_buffer("table", torch.arange(5.0))

            def forward(self, x, image):
                sums = self.layer.weight.sum(1).exp() + self.table.cos()
                return self.layer(x) * sums, self.conv(image)

        torch._dynamo.reset()
        model = Scaled().eval()
        options = {"freezing": True}
        compiled = torch.compile(model, backend=dtc_backend(), options=options)
        x, image = torch.randn(4, 6), torch.randn(1, 2, 8, 8)

        def check():
            with torch.no_grad():
                for _ in range(2):
                    torch.testing.assert_close(compiled(x, image), model(x, image))

        check()
        with torch.no_grad():
            model.layer.weight.mul_(0.5)
        check()
        model.load_state_dict({name: value * 2 for name, value in model.state_dict().items()})
        check()
        model.layer.weight = torch.nn.Parameter(torch.randn(5, 6) * 0.1)
        check()
        with torch.no_grad():
            model.conv.weight.zero_()
            model.table.add_(1)
        check()
        loss = compiled(x, image)[0].sum()  # training: another graph, of which nothing is frozen
        loss.backward()
        torch.testing.assert_close(loss, model(x, image)[0].sum())
        check()

    def test_draws(self):
        import torch

        torch._dynamo.reset()
        backend = dtc_backend()
        permutation = torch.compile(lambda: torch.randperm(6), backend=backend)
        drawn = torch.stack([permutation() for _ in range(600)])
        self.assertTrue(torch.equal(drawn.sort(1).values, torch.arange(6).expand(600, 6)))
        counts = torch.nn.functional.one_hot(drawn, 6).sum(0)  # of a value at a place: 100 expected, deviation 9
        self.assertTrue(((counts - 100).abs() < 50).all(), counts)
        weights = torch.tensor([1.0, 0.0, 2.0, 5.0])
        again = torch.compile(lambda p: torch.multinomial(p, 8000, replacement=True), backend=backend)
        torch.testing.assert_close(again(weights).bincount(minlength=4) / 8000, weights / 8, atol=0.03, rtol=0)
        rows = again(torch.stack([weights, weights.flip(0)]))
        self.assertEqual(rows.shape, (2, 8000))
        torch.testing.assert_close(rows[1].bincount(minlength=4) / 8000, weights.flip(0) / 8, atol=0.03, rtol=0)
        once = torch.compile(lambda p: torch.multinomial(p, 2), backend=backend)
        pairs = once(weights.expand(4000, 4))
        self.assertFalse((pairs == 1).any())
        self.assertFalse((pairs[:, 0] == pairs[:, 1]).any())
        first, second = [pairs[:, i].bincount(minlength=4) / 4000 for i in range(2)]
        torch.testing.assert_close(first, weights / 8, atol=0.04, rtol=0)
        # The second is 3 if it was not the first: 1/8 * 5/7 + 2/8 * 5/6.
        self.assertAlmostEqual(second[3].item(), 1 / 8 * 5 / 7 + 2 / 8 * 5 / 6, delta=0.04)

    def test_weight_norm(self):
        import copy

        import torch

        torch._dynamo.reset()
        for dim in (0, 1):
            model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3), dim=dim)
            eager = copy.deepcopy(model)
            x = torch.randn(5, 4)
            for call in (torch.compile(model, backend=dtc_backend()), eager):
                call(x).square().sum().backward()
            for ours, theirs in zip(model.parameters(), eager.parameters()):
                torch.testing.assert_close(ours.grad, theirs.grad)

    def test_lcm(self):
        import torch

        a = torch.tensor([4, 6, 0, -9, 21, 0], dtype=torch.int32)
        b = torch.tensor([6, 4, 5, 6, 14, 0], dtype=torch.int32)
        compiled = torch.compile(torch.lcm, backend=dtc_backend())
        self.assertTrue(torch.equal(compiled(a, b), torch.lcm(a, b)))

    def test_unsupported_ops(self):
        """The remark is about torch.compile, not about files."""
        import torch

        with self.assertRaisesRegex(Exception, "aten.poisson.*torch.compiler.disable leaves"):
            torch.compile(torch.poisson, backend=dtc_backend(), fullgraph=True)(torch.ones(3, 3))

    def test_eigenvalues(self):
        import torch

        x = torch.randn(2, 5, 5)
        values, vectors = torch.compile(torch.linalg.eig, backend=dtc_backend(), fullgraph=True)(x)
        torch.testing.assert_close(x.to(vectors.dtype) @ vectors, vectors * values[:, None], rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
