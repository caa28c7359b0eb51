"""PyTorch: quantized models, exported and trained. Skipped without PyTorch."""

import unittest

import dtc
from programs import dtc_backend, importable


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class TorchQuantized(unittest.TestCase):
    def test_fake_quantization(self):
        """In exports, with the same bits."""
        import torch

        class Fake(torch.nn.Module):
            def forward(self, x, scale, zero):
                y = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)
                z = torch.fake_quantize_per_tensor_affine(x, scale[0], zero[0], 0, 255)
                return y, z, torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 7)

        x = torch.randn(6, 4) * 3
        arguments = (x, torch.tensor([0.1, 0.2, 0.05, 0.3]), torch.tensor([1, 0, -2, 3], dtype=torch.int32))
        exported = torch.export.export(Fake(), arguments)
        for program in (exported, exported.run_decompositions({})):
            for ours, theirs in zip(dtc.compile(program)(*arguments), Fake()(*arguments)):
                self.assertTrue(torch.equal(ours, theirs))
        x.requires_grad_()
        fake = lambda x: torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -64, 63)
        gradients = []
        for call in (torch.compile(fake, backend=dtc_backend()), fake):
            (call(x) * torch.arange(4.0)).sum().backward()
            gradients.append(x.grad)
            x.grad = None
        self.assertTrue(torch.equal(*gradients))

    def test_observed_fake_quantization(self):
        """Of quantization-aware training: the range is a moving average of what the model saw."""
        import torch
        from torch.ao.quantization import FusedMovingAvgObsFakeQuantize

        def fakes(symmetric, per_row):
            scheme = f"per_{'channel' if per_row else 'tensor'}_{'symmetric' if symmetric else 'affine'}"
            observer = torch.ao.quantization.MovingAveragePerChannelMinMaxObserver if per_row else \
                torch.ao.quantization.MovingAverageMinMaxObserver
            more = {"ch_axis": 0} if per_row else {}
            return FusedMovingAvgObsFakeQuantize(observer, -128, 127, dtype=torch.qint8, qscheme=getattr(torch, scheme), **more)

        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.linear = torch.nn.Linear(6, 5)
                self.of_x, self.of_weight = fakes(False, False), fakes(True, True)
                self.of_weight(self.linear.weight)  # a row of the range for each row of the weight

            def forward(self, x):
                return torch.nn.functional.linear(self.of_x(x), self.of_weight(self.linear.weight), self.linear.bias)

        layer, x = Layer(), torch.randn(4, 6)
        exported = torch.export.export(layer, (x,))
        for program in (exported, exported.run_decompositions({})):
            ours = dtc.compile(program)
            theirs = Layer()
            theirs.load_state_dict(layer.state_dict())
            for scale in (1, 3, 0.1):
                torch.testing.assert_close(ours(scale * x), theirs(scale * x), rtol=1e-5, atol=1e-5)

        losses, states = [], []
        for backend in ("eager", dtc_backend()):
            model = Layer()
            step = torch.compile(model, backend=backend)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            values = []
            for i in range(5):
                loss = ((step((1 + 0.1 * i) * x) - 1) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                values.append(loss.detach())
            losses.append(torch.stack(values))
            states.append(model.state_dict())
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
        for name, value in states[0].items():
            torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-5)

    def test_quantized_export(self):
        """What torchao's pt2e writes."""
        import torch
        import torch.ao.quantization.fx._decomposed  # registers the ops

        q = torch.ops.quantized_decomposed

        class Quantized(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("weight", torch.randint(-127, 128, (5, 8), dtype=torch.int8))
                self.register_buffer("scales", torch.rand(5) * 0.01 + 0.01)
                self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))

            def forward(self, x):
                scale, zero = q.choose_qparams.tensor(x, 0, 255, 1e-6, torch.uint8)
                d = q.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
                x = q.dequantize_per_tensor.tensor(d, scale, zero, 0, 255, torch.uint8)
                w = q.dequantize_per_channel.default(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
                y = torch.nn.functional.linear(x, w)
                i = q.quantize_per_tensor.default(y, 0.03, 120, 0, 255, torch.uint8)
                return d, y, q.dequantize_per_tensor.default(i, 0.03, 120, 0, 255, torch.uint8)

        model, x = Quantized(), torch.randn(4, 8)
        program = torch.export.export(model, (x,))
        ours, theirs = dtc.compile(program)(x), model(x)
        self.assertTrue(torch.equal(ours[0], theirs[0]))
        torch.testing.assert_close(ours[1], theirs[1])
        self.assertLessEqual((ours[2] - theirs[2]).abs().max().item(), 0.031)  # one step


if __name__ == "__main__":
    unittest.main()
