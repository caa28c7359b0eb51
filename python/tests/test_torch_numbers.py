"""PyTorch: numbers where conventions differ: kinks, means of nothing, overflow of float8, booleans, frequencies."""

import unittest

from programs import importable


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class TorchNumbers(unittest.TestCase):
    def compare(self, f, *tensors, gradients=False):
        """Compiled and eager results are equal, and so are gradients of the first tensor; NaN equals NaN."""
        import dtc.torch
        import torch

        torch._dynamo.reset()
        made = []
        for call in (torch.compile(f, backend=dtc.torch.backend, fullgraph=True), f):
            first = tensors[0].clone().requires_grad_(gradients)
            y = call(first, *tensors[1:])
            made.append(y if isinstance(y, (tuple, list)) else [y])
            if gradients:
                y.backward(torch.ones_like(y))
                made[-1] = [y.detach(), first.grad]
        for got, want in zip(*made):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6, equal_nan=True)

    def test_gradients_at_kinks(self):
        import torch
        import torch.nn.functional as F

        x = torch.tensor([0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 6, 20, -20, float("inf"), -float("inf"), float("nan")])
        half = torch.full_like(x, 0.5)
        cases = {
            "hardtanh": F.hardtanh,
            "hardsigmoid": F.hardsigmoid,
            "relu": F.relu,
            "relu6": F.relu6,
            "threshold": lambda x: F.threshold(x, 0.5, 20.0),
            "hardshrink": F.hardshrink,
            "leaky_relu": F.leaky_relu,
            "elu": lambda x: F.elu(x, 2.0),
            "celu": lambda x: F.celu(x, 2.0),
            "selu": F.selu,
            "softplus": lambda x: F.softplus(x, 2.0, 4.0),
            "prelu": lambda x: F.prelu(x, torch.tensor([0.3])),
            "clamp": lambda x: x.clamp(-1, 2),
            "abs": torch.abs,
            "maximum": lambda x: torch.maximum(x, half),
            "minimum": lambda x: torch.minimum(x, half),
            "power": lambda x: x**-0.5,
        }
        for name, f in cases.items():
            with self.subTest(name):
                self.compare(f, x, gradients=True)
        finite = x[x.isfinite()]
        self.compare(F.hardswish, finite, gradients=True)

    def test_complex_gradients(self):
        import torch

        z = torch.tensor([-1.5 + 0.1j, 0.3 - 0.7j, -0.7 + 1.1j, 0.2 + 0.4j])
        names = "tanh sigmoid exp log sqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh reciprocal square abs sgn"
        for name in names.split():
            with self.subTest(name):
                f = getattr(torch, name)
                self.compare(lambda z: (f(z) * (1 - 0.5j)).real, z, gradients=True)

    def test_poles_and_limits(self):
        import torch

        x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, float("inf"), -float("inf"), float("nan")])
        v = torch.full_like(x, 0.5)
        for f in (lambda x: torch.heaviside(x, v), torch.digamma, torch.special.spherical_bessel_j0):
            self.compare(f, x)
        self.compare(torch.lgamma, torch.tensor([0.0, 1.0, 2.5, -0.5]), gradients=True)

    def test_integer_linspace(self):
        import itertools

        import torch

        class Model(torch.nn.Module):
            def __init__(self, *given):
                super().__init__()
                self.given = given

            def forward(self, a):
                return a + torch.linspace(*self.given, dtype=torch.int64)

        import dtc

        a = torch.zeros((), dtype=torch.int64)
        for given in itertools.product((3, -5), (-2, 0, 40), (1, 2, 6, 11)):
            model = Model(*given)
            torch.testing.assert_close(dtc.compile(torch.export.export(model, (a,)))(a), model(a))

    def test_repeats_by_a_tensor(self):
        import torch

        x = torch.arange(12.0).view(3, 4)
        repeats = torch.tensor([1, 2, 0])
        self.compare(lambda x: x.repeat_interleave(repeats, 0, output_size=3), x)
        self.compare(lambda x: x.repeat_interleave(torch.tensor(2), 1, output_size=8), x)
        self.compare(lambda x: x.repeat_interleave(torch.arange(12), output_size=66), x)

    def test_integer_products_and_sorted_edges(self):
        import torch

        a, b = (torch.randint(-128, 128, (32, 32), dtype=torch.int8) for _ in range(2))
        self.compare(lambda a: torch._int_mm(a, b), a)
        edges = torch.tensor([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
        order = edges.argsort(1)
        self.compare(lambda e: torch.searchsorted(e, torch.tensor([[2.0, 5.0], [8.0, 0.0]]), sorter=order), edges)

    def test_gradients_of_special_values(self):
        """PyTorch has two kernels of some functions, for vectors and for the elements that remain."""
        import dtc.torch
        import torch
        import torch.nn.functional as F

        inf, nan = float("inf"), float("nan")
        x = torch.tensor([0, -0.0, 0.5, -0.5, 0.25, 0.75, 1, -1, 2, -2, 3, -3, 20, -20, inf, -inf, nan])
        zero, one = torch.tensor(0.0), torch.tensor(1.0)
        cases = {
            "softshrink": F.softshrink,
            "softshrink of 0": lambda x: F.softshrink(x, 0.0),
            "tanhshrink": F.tanhshrink,
            "softsign": F.softsign,
            "silu": F.silu,
            "mish": F.mish,
            "hardswish": F.hardswish,
            "logsigmoid": F.logsigmoid,
            "logit": torch.logit,
            "clamped logit": lambda x: torch.logit(x, eps=0.25),
            "smooth_l1": lambda x: F.smooth_l1_loss(x, zero.expand_as(x), reduction="none"),
            "smooth_l1 of 0": lambda x: F.smooth_l1_loss(x, zero.expand_as(x), reduction="none", beta=0.0),
            "smooth_l1 of 2": lambda x: F.smooth_l1_loss(x, one.expand_as(x), reduction="none", beta=2.0),
            "mean of smooth_l1": lambda x: F.smooth_l1_loss(x[:14], one.expand(14)) + 0 * x,
            "sum of smooth_l1": lambda x: F.smooth_l1_loss(x[:14], one.expand(14), reduction="sum") + 0 * x,
            "huber": lambda x: F.huber_loss(x, zero.expand_as(x), reduction="none"),
            "huber of 2": lambda x: F.huber_loss(x, one.expand_as(x), reduction="none", delta=2.0),
            "l1": lambda x: F.l1_loss(x, zero.expand_as(x), reduction="none"),
            "mse": lambda x: F.mse_loss(x, zero.expand_as(x), reduction="none"),
            "kl": lambda x: F.kl_div(x, one.expand_as(x), reduction="none"),
            "logits": lambda x: F.binary_cross_entropy_with_logits(x, one.expand_as(x), reduction="none"),
            "sqrt": torch.sqrt,
            "log1p": torch.log1p,
            "acos": torch.acos,
            "atanh": torch.atanh,
            "sinc": torch.sinc,
            "xlogy": lambda x: torch.xlogy(x, x),
            "frac": torch.frac,
            "nan_to_num": torch.nan_to_num,
            "fmax": lambda x: torch.fmax(x, zero),
            "hypot": lambda x: torch.hypot(x, zero.expand_as(x)),
            "logaddexp": lambda x: torch.logaddexp(x, x),
        }

        def values(f, x):
            x = x.clone().requires_grad_()
            y = f(x)
            y.backward(torch.ones_like(y))
            return torch.stack([y.detach(), x.grad])

        def same(a, b):
            return torch.isclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)

        for name, f in cases.items():
            with self.subTest(name):
                torch._dynamo.reset()
                ours = values(torch.compile(f, backend=dtc.torch.backend, fullgraph=True), x)
                each = values(f, x)
                vectors = x.repeat_interleave(16)
                many = each if "of smooth_l1" in name else values(f, vectors)[:, ::16]
                right = (same(ours, each) | same(ours, many)).all(0)
                self.assertTrue(right.all(), f"{x[~right]}: {ours[:, ~right]}, not {each[:, ~right]}")

    def test_mean_of_no_targets(self):
        import torch
        import torch.nn.functional as F

        logits, ignored = torch.randn(2, 3), torch.full((2,), -100)
        self.compare(lambda x: F.cross_entropy(x, ignored), logits, gradients=True)
        self.compare(lambda x: F.cross_entropy(x, ignored, label_smoothing=0.1), logits, gradients=True)
        self.compare(lambda x: F.nll_loss(x, ignored, torch.ones(3)), logits, gradients=True)
        self.compare(lambda x: F.cross_entropy(x, torch.full((1, 2), -100)), torch.randn(1, 3, 2), gradients=True)
        self.compare(lambda x: F.cross_entropy(x, torch.tensor([-100, 1])), logits, gradients=True)

    def test_gradients_by_frequency(self):
        import torch
        import torch.nn.functional as F

        table, index = torch.randn(6, 4), torch.tensor([0, 1, 1, 5, 1, 0])
        for padding in (None, 1, -1):
            f = lambda t: F.embedding(index.view(2, 3), t, padding_idx=padding, scale_grad_by_freq=True)  # noqa: E731
            self.compare(f, table, gradients=True)
        for mode in ("sum", "mean"):
            for padding in (None, 1):
                self.compare(
                    lambda t: F.embedding_bag(
                        index, t, torch.tensor([0, 2]), mode=mode, padding_idx=padding, scale_grad_by_freq=True
                    ),
                    table,
                    gradients=True,
                )

    def test_float8_saturates(self):
        import torch

        inf, nan = float("inf"), float("nan")
        x = torch.tensor([447, 464, 465, 480, -500, 1e6, inf, -inf, nan, 61439, 61440])
        e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            with self.subTest(str(dtype)):
                self.compare(lambda x: (x.to(e4m3).float(), x.to(e5m2).float()), x.to(dtype))
        self.compare(lambda x: x.to(e4m3).float(), torch.tensor([7, -500, 1 << 40]))
        self.compare(lambda x: x.to(e5m2).to(e4m3).float(), x)
        self.compare(lambda x: (x.to(e4m3) * x.to(e4m3)).float(), torch.tensor([3.0, 30.0, -448.0]))
        self.compare(lambda x: torch.empty(2, dtype=e4m3).copy_(x).float(), torch.tensor([1e9, -1e9]))

    def test_order_of_booleans(self):
        import torch

        a = torch.tensor([[True, False, True], [False, False, True]])
        index, none = torch.tensor([[0, 1, 1], [1, 0, 1]]), torch.zeros_like(a)
        pair = torch.tensor([1, 1])
        cases = [
            lambda a: (a.max(), a.min(), a.amax(1), a.amin(0, keepdim=True), *a.max(1), *a.min(0), *a.aminmax(dim=1)),
            lambda a: (a < ~a, a <= ~a, a > ~a, a >= ~a, a < 1, a > True),
            lambda a: (torch.maximum(a, ~a), torch.minimum(a, a.flip(0)), torch.fmax(a, none), torch.fmin(a, ~a)),
            lambda a: (*a.cummax(1), *a.cummin(1)),
            lambda a: none.scatter_add(0, index, a),
            lambda a: none.index_put((torch.tensor([0, 0]),), a, accumulate=True),
            lambda a: a.index_put((index > 0,), torch.tensor(True), accumulate=True),
            lambda a: (a.index_add(0, pair, a.flip(0)), a.put(pair, torch.tensor([True, True]), accumulate=True)),
            *(
                lambda a, how=how, own=own: a.scatter_reduce(0, index, ~a, how, include_self=own)
                for how in ("amax", "amin", "sum", "prod")
                for own in (True, False)
            ),
            *(
                lambda a, how=how: a.index_reduce(0, pair, ~a, how)
                for how in ("amax", "amin", "prod")
            ),
        ]
        for i, f in enumerate(cases):
            with self.subTest(i=i):
                self.compare(f, a)

    def test_activated_product(self):
        import torch

        x, y, b = torch.randn(4, 3), torch.randn(3, 5), torch.randn(5)
        for gelu in (False, True):
            self.compare(lambda x: torch.ops.aten._addmm_activation(b, x, y, beta=0.5, alpha=2, use_gelu=gelu), x)


if __name__ == "__main__":
    unittest.main()
