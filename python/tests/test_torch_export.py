"""PyTorch: exported programs, and writes to tensors in them. Skipped without PyTorch."""

import unittest

import dtc
from programs import importable


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class TorchExport(unittest.TestCase):
    def test_exported(self):
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 5)

            def forward(self, x):
                return torch.relu(self.linear(x))

        model, x = Model(), torch.randn(4, 3)
        f = dtc.compile(torch.export.export(model, (x,)))
        torch.testing.assert_close(f(x), model(x))
        torch.testing.assert_close(f(x=x), model(x))
        with torch.no_grad():
            model.linear.weight.mul_(2)  # the executable uses the model's own weights
        torch.testing.assert_close(f(x), model(x))

    def test_inputs_in_dicts_and_lists(self):
        import torch

        class Model(torch.nn.Module):
            def forward(self, x, state, pair=(), mask=None):
                y = x - state["in"]["b"] * 2 + state["a"]
                return y + pair[0] * 3 - pair[1] if mask is None else y, None, y * 2

        x, a, b, p, q = (torch.randn(3) for _ in range(5))
        state = {"in": {"b": b}, "a": a}
        f = dtc.compile(torch.export.export(Model(), (x, state, [p, q])))
        want = Model()(x, state, [p, q])
        swapped = {"a": a, "in": {"b": b}}
        for results in (f(x, state, [p, q]), f(x, swapped, (p, q)), f(x, swapped, [p, q], None), f(x, b, a, p, q),
                        f(x, pair=[p, q], state=swapped), f(x, state_a=a, state_in_b=b, pair=(p, q))):
            self.assertEqual(len(results), 2)  # not the None
            torch.testing.assert_close(results[0], want[0])
            torch.testing.assert_close(results[1], want[2])
        for wrong in ((x, {"a": a, "c": b}, [p, q]), (x, state, [p]), ([x], state, [p, q])):
            with self.assertRaises(TypeError):
                f(*wrong)

    def test_autocast_in_an_export(self):
        """The file has f32 operands and results in bf16."""
        import torch
        from torch.nn import functional as F

        class Model(torch.nn.Module):
            def __init__(self, f):
                super().__init__()
                self.f = f

            def forward(self, *arguments):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.f(*arguments).float()

        x, w, b = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5)
        rows, kernel = torch.randn(2, 3, 6), torch.randn(4, 3, 2)
        for f, arguments in (
            (F.linear, (x, w, b)),
            (F.bilinear, (x, x, torch.randn(2, 3, 3))),
            (F.conv1d, (rows, kernel)),
            (F.conv_transpose1d, (rows, kernel.transpose(0, 1))),
            (F.scaled_dot_product_attention, (rows, rows, rows)),
            (torch.mm, (x, w.T.contiguous())),
        ):
            with self.subTest(f=f.__name__):
                model = Model(f)
                got = dtc.compile(torch.export.export(model, arguments))(*arguments)
                torch.testing.assert_close(got, model(*arguments), rtol=2e-2, atol=2e-2)

    def test_memory_of_strided_tensors(self):
        import torch

        class View(torch.nn.Module):
            def forward(self, x):
                return x.as_strided((2, 3), (1, 2)) + 0

        rows, gaps = torch.arange(20.0).view(4, 5), torch.arange(80.0).view(8, 10)[::2, ::2]
        for x, dense in ((rows, True), (rows.T, True), (rows.view(2, 5, 2).permute(1, 2, 0), True), (gaps, False)):
            program = torch.export.export(View(), (x,))
            if dense:
                torch.testing.assert_close(dtc.compile(program)(x), View()(x))
            else:
                with self.assertRaisesRegex(dtc.ProgramError, "needs an operand without gaps or repeated elements"):
                    dtc.compile(program)

    def test_buffers(self):
        import torch

        for kind, shape, options in ((torch.nn.BatchNorm1d, (8, 3), {}), (torch.nn.InstanceNorm1d, (2, 3, 5), {"track_running_stats": True})):
            with self.subTest(kind=kind.__name__):
                model, again = kind(3, **options), kind(3, **options)
                x = torch.randn(shape)
                f = dtc.compile(torch.export.export(model, (x,)))
                for _ in range(3):
                    torch.testing.assert_close(f(x), again(x))
                torch.testing.assert_close(model.running_mean, again.running_mean)
                torch.testing.assert_close(model.running_var, again.running_var)
                self.assertEqual(int(model.num_batches_tracked), int(again.num_batches_tracked))

    def test_buffers_that_share_memory(self):
        """A write to the one changes the others, in the next call, too."""
        import torch

        def model(forward, **buffers):
            made = type("Model", (torch.nn.Module,), {"forward": forward})()
            for name, b in buffers.items():
                made.register_buffer(name, b)
            return made

        whole = torch.arange(6.0).reshape(2, 3)
        cases = (
            (lambda m, x: (m.a.add_(x), m.b * 2)[1], lambda w: {"a": w, "b": w.view(2, 3)}),
            (lambda m, x: (m.b.add_(x[1]), m.a * 2, m.c + 1)[1:], lambda w: {"a": w, "b": w[1], "c": w.view(6)}),
            (lambda m, x: (m.t.mul_(x.t() + 1), m.a * 2)[1], lambda w: {"t": w.t(), "a": w}),
            (lambda m, x: (m.a.add_(x), m.c * 2)[1], lambda w: {"a": w, "c": w[:, 1]}),
            (lambda m, x: (m.a.add_(x[0, 0]), m.b * 2)[1], lambda w: {"a": w[0], "b": w[1]}),
        )
        for forward, buffers in cases:
            x = torch.full((2, 3), 3.0)
            compiled = dtc.compile(torch.export.export(model(forward, **buffers(whole.clone())), (x,)))
            eager = model(forward, **buffers(whole.clone()))
            for _ in range(2):
                torch.testing.assert_close(compiled(x), eager(x))

    def test_out_arguments(self):
        import torch

        def both(f):
            def call(x):
                values, indices = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)
                f(x, (values, indices))
                return torch.cat([values, indices.float()])

            return call

        def one(f, *shape, part=lambda out: out):
            def call(x):
                out = torch.zeros(*shape)
                f(x, part(out))
                return out + 0

            return call

        def resized(x):
            out = torch.empty(0)
            torch.mul(x, 2, out=out)
            return out + 0

        x = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
        for f in (
            both(lambda x, out: torch.sort(x, 1, out=out)),
            both(lambda x, out: torch.sort(x, dim=1, stable=True, descending=True, out=out)),
            both(lambda x, out: torch.topk(x, 3, 1, out=out)),
            one(lambda x, out: torch.sum(x, 1, out=out), 2, 2, part=lambda out: out[1]),
            one(lambda x, out: torch.mm(x, x.T, out=out), 2, 3, part=lambda out: out[:, 1:]),
            one(lambda x, out: torch.cumsum(x, 1, out=out), 3, 2, part=lambda out: out.T),
            one(lambda x, out: torch.div(x, 2, rounding_mode="floor", out=out), 2, 3),
            resized,
        ):
            model = type("Model", (torch.nn.Module,), {"forward": lambda self, x, f=f: f(x)})()
            torch.testing.assert_close(dtc.compile(torch.export.export(model, (x,)), opt_level=0)(x), f(x))

    def test_bits(self):
        """view(dtype) keeps the bytes (those of signaling NaNs may become quiet)."""
        import torch

        x = (torch.arange(16.0).view(2, 8) - 8) / 3
        x.view(torch.int16)[:, ::2] %= 30000  # no NaNs of f16 or bf16 in the low halves
        self.assertFalse(x.view(torch.float16).isnan().any() or x.view(torch.bfloat16).isnan().any())
        for to in (torch.int32, torch.int16, torch.uint8, torch.float16, torch.bfloat16, torch.int64, torch.float64, torch.complex64):
            with self.subTest(to=to):
                model = type("Model", (torch.nn.Module,), {"forward": lambda self, x, to=to: x.view(to)})()
                got = dtc.compile(torch.export.export(model, (x,)), opt_level=0)(x)
                self.assertEqual(got.dtype, to)
                self.assertTrue(torch.equal(got.view(torch.uint8), x.view(torch.uint8)))

    def test_checks_with_effects(self):
        """Core ATen has tokens for checks of data."""
        import torch

        model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.linalg.cholesky(x)})()
        x = torch.eye(3) * 4
        torch.testing.assert_close(dtc.compile(torch.export.export(model, (x,)).run_decompositions())(x), torch.eye(3) * 2)

    def test_dtypes_that_are_promoted(self):
        """Ops of integers that return floats, ops of booleans, and ops of complex numbers that return real ones."""
        import torch
        import torch.nn.functional as F

        i, j = torch.randint(-5, 5, (4, 6)), torch.randint(-5, 5, (4, 6))
        p, q = torch.rand(4, 6) < 0.5, torch.rand(4, 6) < 0.5
        z, w = (torch.randn(4, 4, dtype=torch.cfloat) for _ in range(2))
        rows, sign = torch.tensor([2, 0]), torch.tensor([1, -1, 1, -1])
        infinite = torch.tensor([[-torch.inf, torch.inf, 1, -torch.inf], [torch.inf, -torch.inf, torch.nan, 2]])
        logs = torch.cat([infinite + 1j, z * 3])
        columns = torch.tensor([1, 1, 0, 5, 2, 3])
        at, poles = torch.tensor([2, 0, 2, 3]), torch.tensor([-7.0, 0, -0.0, -0.5, 1, -1.5, torch.nan])
        cases = [
            (lambda i, j: F.margin_ranking_loss(i, j, torch.ones_like(i)), i, j),
            (lambda i, j: F.cosine_embedding_loss(i, j, sign), i, j),
            (F.triplet_margin_loss, i, j, i + 1),
            (F.pairwise_distance, i, j),
            (F.poisson_nll_loss, i, j.abs()),
            (lambda i: torch.gradient(i, dim=1)[0], i),
            (torch.digamma, i),
            (torch.digamma, torch.tensor([0.0, -0.0, -1.0, 2.5])),
            (lambda i: F.avg_pool2d(i[None], 2, divisor_override=3), i),
            (lambda p, q: p.scatter(0, torch.zeros(1, 6, dtype=torch.long), q), p, q),
            (lambda p, q: p.index_copy(0, rows, q[:2]), p, q),
            (lambda p: p.index_fill(0, rows, True), p),
            (lambda p, q: p.index_add(0, rows, q[:2]), p, q),
            (lambda p, q: p.as_strided_scatter(q[:2, :2], (2, 2), (1, 3)), p, q),
            (lambda p: p.sum_to_size(1, 6), p),
            (F.l1_loss, z, w),
            (torch.dist, z, w),
            (F.pairwise_distance, z, w),
            (F.triplet_margin_loss, z, w, z + 1),
            (torch.exp2, z),
            (F.silu, z),
            (lambda z: torch.renorm(z, 2, 0, 1.0), z),
            (lambda z: torch.cumprod(z, -1), z),
            (lambda z: torch.cumprod(z, 0), torch.cat([z, z[:1] * 0, z])),
            (lambda z: torch.cumprod(z, 0), z[:0]),
            (lambda z: torch.logcumsumexp(z, 1), logs),
            (lambda z: torch.logcumsumexp(z, 0), logs),
            (lambda z: torch.logsumexp(z, (0, 1), True), z),
            (lambda z: torch.logsumexp(z, 1), logs[1:]),
            (lambda z: torch.logsumexp(z, 0), z[0, 0] * 9),
            (torch.logaddexp, logs, logs.flip(1)),
            (torch.logaddexp, logs, logs[:1]),
            (lambda z, w: torch.addmm(z, z, w, alpha=0.5 + 2j, beta=1 - 1j), z, w),
            (lambda z, w: torch.addmm(z, w, w, alpha=1j, beta=0j), z * torch.nan, w),
            (lambda z, w: torch.addr(z, z[0], w[0], alpha=2j, beta=3j), z, w),
            (lambda z, w: torch.add(z, w, alpha=2j), z, w),
            (lambda z, w: torch.cholesky_solve(w, torch.linalg.cholesky(z)), z @ z.mH + torch.eye(4), w),
            (lambda z, w: torch.cholesky_solve(w, z.triu(), upper=True), z + 4 * torch.eye(4), w),
            (torch.cholesky_inverse, z - torch.diag(z.diag()) + 4 * torch.eye(4)),
            (lambda z: torch.cholesky_inverse(z, upper=True), z - torch.diag(z.diag()) + 4 * torch.eye(4)),
            (lambda z, w: F.rms_norm(z, (4,), w[0], 0.1), z, w),
            (torch.clamp_min, p, q),
            (torch.clamp_max, p, q),
            (torch.heaviside, p, q),
            (lambda p: torch.prod(p[:2], 0, dtype=torch.bool), p),
            (lambda p: torch.sum(p[:2], 0, dtype=torch.bool), p),
            (lambda p, q: torch.addr(p, q[:, 0], p[0], alpha=True, beta=False), p, q),
            (lambda p, q: torch.addr(p, q[:, 0], p[0], alpha=False, beta=True), p, q),
            (lambda p, q: torch.ops.aten._unsafe_masked_index_put_accumulate(p, q, [at[:, None], columns], q), p, q),
            *(
                (lambda i, how=how, own=own: torch.index_reduce(i, 0, at, i, how, include_self=own), i)
                for how in ("mean", "prod", "amax", "amin")
                for own in (False, True)
            ),
            (torch.special.zeta, poles, poles[:, None] + 8),
            (torch.special.zeta, poles[:, None] + 8, poles),
            (lambda x: torch.polygamma(2, x), poles),
            (lambda x: torch.polygamma(3, x), poles),
            (torch.linalg.inv, z),
            (torch.linalg.slogdet, z),
            (torch.logdet, z),
            (torch.linalg.pinv, z[:, :3]),
            (lambda z: torch.linalg.pinv(z, hermitian=True), z),
            (lambda z: z.to(torch.float64), z),
            (lambda z: torch.softmax(z, 0, dtype=torch.float64), z),
            (torch.linalg.lu, z),
            (lambda z: torch.linalg.matrix_power(z, 3), z),
            (torch.linalg.matrix_norm, z[:0]),
            (lambda z: torch.linalg.norm(z, 1), z[:0]),
            (lambda z: torch.istft(torch.cat([z, w, z[:2]]), 10), z),
        ]
        for number, (f, *tensors) in enumerate(cases):
            with self.subTest(number=number):
                model = type("Model", (torch.nn.Module,), {"forward": lambda self, *x, f=f: f(*x)})()
                got = dtc.compile(torch.export.export(model, tuple(tensors), strict=False))(*tensors)
                want = f(*tensors)
                for a, b in zip(*((t if isinstance(t, (tuple, list)) else [t]) for t in (got, want)), strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)

    def test_distributions(self):
        """Random numbers are not those of PyTorch, but of the same distributions."""
        import torch
        import torch.nn.functional as F

        x = torch.randn(200, 500, 2)
        seed = torch.tensor([1, 2], dtype=torch.uint64)

        def drawn(f):
            model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: f(x)})()
            return dtc.compile(torch.export.export(model, (x,)))(x, seed=seed)

        quantiles = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
        cases = {
            "cauchy": lambda x: x.clone().cauchy_(1.0, 2.0),
            "log_normal": lambda x: x.clone().log_normal_(0.5, 0.75),
            "geometric": lambda x: x.clone().geometric_(0.3),
            "exponential": lambda x: x.clone().exponential_(2.0),
            "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, True),
            "feature_dropout": lambda x: F.dropout1d(x, 0.3, True),
            "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.3, True),
        }
        for name, f in cases.items():
            with self.subTest(name):
                ours, theirs = (t.flatten().quantile(quantiles) for t in (drawn(f), f(x)))
                torch.testing.assert_close(ours, theirs, rtol=0.03, atol=0.03)
        whole = drawn(lambda x: F.dropout1d(torch.ones_like(x), 0.25, True))
        self.assertTrue(torch.equal(whole[..., 0], whole[..., 1]))
        self.assertEqual(set(whole.flatten().tolist()), {0.0, torch.tensor(1 / 0.75).item()})
        z = drawn(lambda x: torch.randn(x.shape, dtype=torch.cfloat))
        self.assertAlmostEqual(z.abs().pow(2).mean().item(), 1, delta=0.02)
        self.assertAlmostEqual((z.real * z.imag).mean().item(), 0, delta=0.01)
        self.assertAlmostEqual(drawn(lambda x: F.alpha_dropout(x, 0.5, True)).std().item(), 1, delta=0.02)
        self.assertEqual(drawn(lambda x: F.alpha_dropout(torch.ones_like(x), 1.0, True)).abs().max().item(), 0)

    def test_names_in_errors(self):
        """An exported program has no file of the user's."""
        import torch

        model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.poisson(x)})()
        program = torch.export.export(model, (torch.eye(3),))
        for name in (None, "model"):
            with self.assertRaises(dtc.ProgramError) as caught:
                dtc.compile(program, name=name)
            self.assertEqual(caught.exception.diagnostics[0].file, name or "<exported program>")
            self.assertRegex(str(caught.exception), f"^{name or '<exported program>'}:3:")

    def writes(self, view, z):
        """Programs that write through a view and read its base, and the other way round."""
        import torch

        def of(x):
            return torch.complex(x, x * 2) if z else x * 1

        def result(y):
            return torch.view_as_real(y.resolve_conj() * 1) if y.is_complex() else y * 1

        class ThroughView(torch.nn.Module):
            def forward(self, x):
                base = of(x)
                view(base).add_(1)
                return result(base)

        class ThroughBase(torch.nn.Module):
            def forward(self, x):
                base = of(x)
                y = view(base)
                base.add_(1)
                return result(y)

        return ThroughView(), ThroughBase()

    def test_sizes_without_gradients(self):
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("kept", torch.zeros(8, 16))

            def forward(self, x):
                rows, columns = x.shape
                with torch.no_grad():
                    self.kept[:rows, :columns] = x * 2
                    mask = torch.arange(columns) < rows
                return x * mask + self.kept[:rows, :columns].sum()

        x = torch.ones(4, 7)
        dims = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
        f = dtc.compile(torch.export.export(Model(), (x,), dynamic_shapes=(dims,)))
        for shape in ((4, 7), (3, 9), (8, 2)):
            torch.testing.assert_close(f(torch.ones(shape)), Model()(torch.ones(shape)))

    def test_bounds_of_sizes(self):
        import torch

        class Model(torch.nn.Module):
            def forward(self, x):
                rows = x.shape[0]
                half = max(2, rows // 2)
                return torch.cat([x[: min(rows, 5)], torch.zeros(half, 3)]) * half

        x = torch.ones(8, 3)
        f = dtc.compile(torch.export.export(Model(), (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)))
        for rows in (8, 6, 3):
            torch.testing.assert_close(f(torch.ones(rows, 3)), Model()(torch.ones(rows, 3)))

    def test_arguments_that_are_no_tensors(self):
        import torch

        class Model(torch.nn.Module):
            def forward(self, x, scale=1, flag=None, options=None):
                return (x * scale if flag is None else x + 1) + (options["shift"] if options else 0)

        x, model = torch.ones(3), Model()
        f = dtc.compile(torch.export.export(model, (x,), {"scale": 2, "flag": None}))
        for y in (f(x, scale=2, flag=None), f(x), f(x, 2), f(x, 2, None), f(x=x, scale=2)):
            torch.testing.assert_close(y, x * 2)
        for call in (lambda: f(x, scale=3), lambda: f(x, 3), lambda: f(x, scale=2.0), lambda: f(x, scale=x)):
            with self.assertRaisesRegex(TypeError, "argument 'scale' was exported as 2 and cannot be (3|2.0|a tensor)"):
                call()
        with self.assertRaisesRegex(TypeError, "'flag' was exported as None and cannot be True"):
            f(x, flag=True)
        with self.assertRaisesRegex(TypeError, "no argument 'other'"):
            f(x, other=1)
        g = dtc.compile(torch.export.export(model, (x, 2, True, {"shift": 0.5})))
        torch.testing.assert_close(g(x, 2, True, {"shift": 0.5}), x + 1.5)
        torch.testing.assert_close(g(x, flag=True, options={"shift": 0.5}), x + 1.5)
        with self.assertRaisesRegex(TypeError, "'options_shift' was exported as 0.5 and cannot be 1.5"):
            g(x, 2, True, {"shift": 1.5})

    def test_dropout_of_nothing(self):
        import torch

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.nn.functional.dropout(x, 0.0, True) + 1

        x = torch.ones(3)
        torch.testing.assert_close(dtc.compile(torch.export.export(Model(), (x,)))(x), x + 1)  # without a seed

    def test_writes_through_views(self):
        """All ops that may return a view, with a write to it or to its base: the result of eager mode, or an error."""
        import torch
        from torch_views import COMPLEX_VIEWS, VIEWS, WITHOUT_EXPORT, names

        self.assertEqual(names() - VIEWS.keys() - WITHOUT_EXPORT, set())
        x = torch.arange(1.0, 17).view(4, 4)
        refused = set()
        views = [(name, i, view) for name, calls in VIEWS.items() for i, view in enumerate(calls)]
        for name, i, view in views + [("complex", i, view) for i, view in enumerate(COMPLEX_VIEWS)]:
            for model in self.writes(view, name == "complex"):
                with self.subTest(op=name, call=i, model=type(model).__name__):
                    try:
                        expected = model(x)
                    except RuntimeError:  # PyTorch refuses the write
                        continue
                    program = torch.export.export(model, (x,))
                    try:
                        got = dtc.compile(program, opt_level=0)(x)
                    except dtc.ProgramError as error:
                        self.assertRegex(str(error), "run_decompositions")
                        refused.add((name, i))
                        continue
                    torch.testing.assert_close(got, expected)
        self.assertLessEqual(len(refused), 12, refused)


if __name__ == "__main__":
    unittest.main()
