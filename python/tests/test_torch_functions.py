"""PyTorch: derivatives of torch.func, scans and lists of tensors in torch.compile. Skipped without PyTorch."""

import unittest

import dtc
from programs import importable


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class TorchFunctions(unittest.TestCase):
    def check(self, f, *arguments, **options):
        import torch
        import dtc.torch

        torch._dynamo.reset()
        got = torch.compile(f, backend="dtc", fullgraph=True, **options)(*arguments)
        torch.testing.assert_close(got, f(*arguments))

    def test_forward_derivatives(self):
        import torch

        w = torch.randn(3, 3)
        self.check(lambda x: torch.func.jacfwd(lambda x: torch.tanh(w @ x))(x), torch.randn(3))
        self.check(lambda x: torch.func.hessian(lambda x: torch.tanh(w @ x).sum())(x), torch.randn(3))

    def test_negated_views(self):
        import torch

        c = torch.randn(3, dtype=torch.cfloat)
        self.check(lambda c: c.conj().imag + 1, c)
        self.check(lambda c: (c.conj().imag, (c * 2).conj().imag), c)

    def test_associative_scans(self):
        import torch
        from torch._higher_order_ops.associative_scan import associative_scan

        def scan(x, s=None, **options):
            def combine(p, q):
                return p[0] * q[0], p[1] * q[0] + (q[1] if s is None else q[1] * s)

            a, b = associative_scan(combine, (x.sigmoid(), x.sin()), **options)
            return a + b

        x = torch.randn(7, 3)
        self.check(lambda x: scan(x, dim=0, combine_mode="pointwise"), x)
        self.check(lambda x: scan(x, dim=0, combine_mode="pointwise"), x, dynamic=True)
        self.check(lambda x, s: scan(x, s, dim=1, reverse=True, combine_mode="generic"), x, torch.randn(()))

    def test_gradients_of_scans(self):
        import torch
        import dtc.torch
        from torch._higher_order_ops import scan

        cell = torch.nn.Linear(3, 3)
        bodies = {
            "cell": lambda h, x: ((cell(h) + x).tanh(), h * x),
            "same": lambda h, x: (h + x * cell.bias, x.clone()),
            "gate": lambda h, x: (torch.sigmoid(cell(x)) * h, (h - x).relu()),
        }
        for name, body in bodies.items():
            with self.subTest(name):
                made = []
                for backend in ("dtc", "aot_eager"):
                    torch._dynamo.reset()
                    cell.zero_grad()
                    call = torch.compile(lambda h, x: scan(body, h, x, dim=0), backend=backend)
                    h, ys = call(torch.ones(3), torch.linspace(-1, 1, 15).view(5, 3))
                    (h.sum() + ys.square().sum()).backward()
                    made.append((h.detach(), ys.detach(), cell.bias.grad.clone()))
                torch.testing.assert_close(*made)

    def test_transforms_that_torch_exports_wrongly(self):
        import torch

        class Jvp(torch.nn.Module):
            def forward(self, x, v):
                return torch.func.jvp(lambda q: torch.softmax(q, 0) * q, (x,), (v,))

        class Gradient(torch.nn.Module):
            def forward(self, x):
                return torch.func.grad(lambda q: q.sin().sum())(x)

        class Batched(torch.nn.Module):
            def forward(self, x):
                return torch.vmap(lambda q: q.sin().sum())(x)

        x = torch.randn(3, 2)
        with self.assertRaisesRegex(dtc.ProgramError, "'torch.func.jvp': .* use torch.compile"):
            dtc.compile(torch.export.export(Jvp(), (x, x)))
        with self.assertRaisesRegex(dtc.ProgramError, "'torch.func.grad': .* use torch.compile"):
            dtc.compile(torch.export.export(Gradient(), (x,)))
        torch.testing.assert_close(dtc.compile(torch.export.export(Batched(), (x,)))(x), x.sin().sum(1))
        self.check(lambda x: torch.func.jvp(lambda q: torch.softmax(q, 0) * q, (x,), (x + 1,)), x)
        self.check(lambda x: torch.func.grad(lambda q: q.sin().sum())(x), x)

    def test_associative_scans_in_exported_programs(self):
        import dtc
        import torch
        from torch._higher_order_ops.associative_scan import associative_scan

        def combine(p, q):
            return p[0] * q[0], p[1] * q[0] + q[1]

        class Model(torch.nn.Module):
            def __init__(self, options):
                super().__init__()
                self.options = options

            def forward(self, x, y):
                return associative_scan(combine, (x, y), **self.options)

        for n in (1, 5):
            tensors = torch.rand(n, 3), torch.rand(n, 3)
            for mode in ("pointwise", "generic"):
                for options in ({"dim": 0}, {"dim": 0, "reverse": True}, {"dim": 1}):
                    with self.subTest(n=n, mode=mode, **options):
                        model = Model({**options, "combine_mode": mode})
                        got = dtc.compile(torch.export.export(model, tensors, strict=False))(*tensors)
                        for a, b in zip(got, model(*tensors), strict=True):
                            torch.testing.assert_close(a, b)

    def test_factors_of_symmetric_matrices(self):
        """LDLᵀ and LDLᴴ have LAPACK's layout and pivots: those of PyTorch."""
        import dtc.torch
        import torch

        def factors(x, hermitian):
            return torch.linalg.ldl_factor_ex(x, hermitian=hermitian)

        def solved(x, b, hermitian):
            ld, pivots, _ = torch.linalg.ldl_factor_ex(x, hermitian=hermitian)
            return torch.linalg.ldl_solve(ld, pivots, b, hermitian=hermitian)

        torch.manual_seed(0)
        zeros = torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 2], [0, 0, 0, 0], [0, 2, 0, 0]])  # without a pivot in column 2
        cases = [(torch.float32, s) for s in ((1, 1), (2, 2), (7, 7), (3, 2, 6, 6), (0, 0), (0, 3, 3))]
        cases += [(dtype, (2, 6, 6)) for dtype in (torch.float64, torch.complex64, torch.complex128)]
        for dtype, shape in cases:
            for hermitian in (False, True):
                with self.subTest(dtype=dtype, shape=shape, hermitian=hermitian):
                    torch._dynamo.reset()
                    x = torch.randn(shape, dtype=dtype) * (torch.rand(shape) < 0.7 if shape != (1, 1) else 1)
                    x = x + (x.mH if hermitian else x.mT)  # with zeros: some blocks have two rows
                    ours = torch.compile(factors, backend="dtc", fullgraph=True)(x, hermitian)
                    for got, want in zip(ours, factors(x, hermitian), strict=True):
                        torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-3)
                    x = x.to(torch.promote_types(dtype, torch.float64))
                    b = torch.randn(*shape[:-1], 2, dtype=x.dtype)
                    got = torch.compile(solved, backend="dtc", fullgraph=True)(x, b, hermitian)
                    torch.testing.assert_close(got, solved(x, b, hermitian), rtol=1e-6, atol=1e-6)
        torch._dynamo.reset()
        for got, want in zip(torch.compile(factors, backend="dtc")(zeros, False), factors(zeros, False), strict=True):
            torch.testing.assert_close(got, want)

    def test_optimizers_of_lists(self):
        import copy

        import torch
        import dtc.torch

        for kind in (torch.optim.Adamax, torch.optim.NAdam, torch.optim.Adadelta, torch.optim.Rprop, torch.optim.RAdam):
            with self.subTest(kind.__name__):
                torch._dynamo.reset()
                models = [torch.nn.Linear(3, 3)]
                models.append(copy.deepcopy(models[0]))
                optimizers = [kind(m.parameters(), lr=0.01, foreach=True) for m in models]
                compiled = torch.compile(lambda: optimizers[0].step(), backend="dtc")
                for _ in range(2):
                    for m, step in zip(models, (compiled, optimizers[1].step)):
                        m.zero_grad()
                        m(torch.ones(2, 3)).pow(2).sum().backward()
                        step()
                torch.testing.assert_close(models[0].weight, models[1].weight)

    def test_floats_of_sizes(self):
        import torch
        import torch.nn.functional as F
        import dtc.torch

        f = lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1)  # noqa: E731
        x, y = torch.randn(8, 6, requires_grad=True), torch.arange(8) % 6
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "takes a float that the forward pass computes from sizes.*dynamic=False"):
            torch.compile(f, backend="dtc", dynamic=True)(x, y).backward()
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(f, backend="dtc", dynamic=False)(x, y), f(x, y))

    def test_sizes_that_depend_on_data(self):
        import torch
        import dtc.torch

        call = torch.compile(lambda i: torch.bincount(i, minlength=6), backend="dtc", fullgraph=True)
        with self.assertRaisesRegex(Exception, "aten.bincount.*: the size of its result depends on data.*torch.compiler.disable"):
            with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                call(torch.tensor([1, 1, 3]))


if __name__ == "__main__":
    unittest.main()
