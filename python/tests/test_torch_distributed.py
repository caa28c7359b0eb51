"""Plans of torch.distributed, in one process with the fake process group."""

import os
import tempfile
import unittest
import warnings

import dtc
from programs import importable


@unittest.skipUnless(importable("torch"), "needs PyTorch")
class TorchDistributed(unittest.TestCase):
    """In one process: with the fake process group."""

    def setUp(self):
        import torch
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if not dist.is_initialized():
            dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
        torch.manual_seed(0)
        self.mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        self.model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.LayerNorm(4))
        self.x, self.y = torch.randn(8, 6), torch.randint(0, 4, (8,))

    def styles(self):
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

        return {"0": ColwiseParallel(), "2": RowwiseParallel()}

    def check(self, plan, loss=None, **options):
        import copy

        import torch
        import dtc.torch

        loss = loss or torch.nn.functional.cross_entropy
        eager, model = copy.deepcopy(self.model), self.model
        step = dtc.torch.parallelize(model, plan, loss=loss, **options)
        ours, theirs = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, eager))
        for _ in range(3):
            ours.zero_grad(), theirs.zero_grad()
            got, want = step(self.x, self.y), loss(eager(self.x), self.y)
            got.backward(), want.backward()
            torch.testing.assert_close(got, want)
            for p, q in zip(model.parameters(), eager.parameters()):
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
            ours.step(), theirs.step()
        self.assertIn("check", str(step.check()))
        return step

    def test_fsdp_over_tp(self):
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import parallelize_module

        def plan(model):
            parallelize_module(model, self.mesh["tp"], self.styles())
            fully_shard(model, mesh=self.mesh["dp"])

        step = self.check(plan)
        self.assertEqual(step.plan.data, ("dp",))
        self.assertIn("{(tp, dp), _}", step.text())
        self.assertIn("reduce_scatter", {c["kind"] for c in step.collectives()})
        named = [{c.get("user_name"), c.get("for")} for c in step.collectives()]
        self.assertTrue(any("0.weight" in names for names in named), named)
        self.assertTrue(any("0.weight.grad" in names for names in named), named)
        self.assertIn("0.weight.grad", str(step.explain()))

    def test_weights_that_are_freed_after_the_forward_pass(self):
        from torch.distributed.fsdp import fully_shard

        def plan(root, *rest):
            def apply(model):
                for module in rest:
                    fully_shard(model[module[0]], mesh=self.mesh["dp"], **module[1])
                fully_shard(model, mesh=self.mesh["dp"], **root)
            return apply

        # By default all but the outermost module; the first layer's weight is not read in the backward pass.
        for given, freed, again in ((plan({}), set(), 0),
                                    (plan({"reshard_after_forward": True}), {"0.weight", "2.weight", "3.weight"}, 3),
                                    (plan({}, (2, {})), {"2.weight"}, 1),
                                    (plan({}, (2, {"reshard_after_forward": False})), set(), 0)):
            step = self.check(given)
            self.assertEqual({name for name in step.plan.freed if name.endswith("weight")}, freed)
            self.assertEqual(step.text().count("recompute"), again)

    def test_styles_and_placements(self):
        from torch.distributed.tensor import Replicate, Shard

        self.check(self.styles(), mesh=self.mesh)
        self.check({"0.weight": [Replicate(), Shard(0)], "0.bias": [Replicate(), Shard(0)]}, mesh=self.mesh, data="dp")

    def test_a_gradient_is_gathered_once(self):
        import torch
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel

        self.model = torch.nn.Sequential(torch.nn.LayerNorm(6), torch.nn.Linear(6, 8), torch.nn.Tanh(),
                                         torch.nn.Linear(8, 4))
        styles = {"0": SequenceParallel(sequence_dim=0), "1": ColwiseParallel(input_layouts=Shard(0)),
                  "3": RowwiseParallel(output_layouts=Shard(0))}
        step = self.check(styles, mesh=self.mesh["tp"])
        # The activation of "1", and the gradient of the result of "3", which both of its matmuls read.
        gathers = [c for c in step.collectives() if c["kind"] == "all_gather"]
        self.assertEqual(len(gathers), 2, gathers)

    def test_tied_weights_and_parameters_of_the_loss(self):
        import torch
        from torch.distributed.tensor.parallel import ColwiseParallel

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = torch.nn.Linear(6, 8), torch.nn.Linear(6, 8)
                self.down.weight = self.up.weight
                self.out = torch.nn.Linear(8, 4)

            def forward(self, x):
                return self.out(torch.tanh(self.up(x)) * self.down(x))

        self.model = Tied()
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.check({"up": ColwiseParallel(), "down": ColwiseParallel()}, loss, mesh=self.mesh)

    def test_modes_of_submodules_and_frozen_parameters(self):
        import torch
        import dtc.torch

        self.model.insert(1, torch.nn.BatchNorm1d(8))
        norm = self.model[1].eval()
        loss = torch.nn.functional.cross_entropy
        step = dtc.torch.parallelize(self.model, {"0.weight": []}, mesh=self.mesh, loss=loss)
        self.model[0].weight.requires_grad_(False)
        for trained in (False, True):
            norm.train(trained)
            self.model[0].weight.requires_grad_(trained)
            mean = norm.running_mean.clone()
            want = loss(self.model(self.x), self.y)
            norm.running_mean.copy_(mean)
            got = step(self.x, self.y)
            got.backward()
            torch.testing.assert_close(got, want)
            self.assertEqual(norm.training, trained)
            self.assertEqual(torch.equal(norm.running_mean, mean), not trained)
            self.assertEqual(self.model[0].weight.grad is not None, trained)

    def test_dropout_autocast_and_outputs(self):
        import torch
        import dtc.torch

        class Scored(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x, y):
                scores = self.inner(x)
                return torch.nn.functional.cross_entropy(scores, y), scores

        model = Scored(self.model)
        step = dtc.torch.parallelize(model, {"inner.0.weight": []}, mesh=self.mesh)
        for mixed in (False, True, False):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                (loss, scores), (want, wanted) = step(self.x, self.y), model(self.x, self.y)
                loss.backward()
            torch.testing.assert_close(loss, want, rtol=1e-2 if mixed else 1e-5, atol=1e-6)
            torch.testing.assert_close(scores, wanted.detach(), rtol=2e-2 if mixed else 1e-5, atol=1e-2 if mixed else 1e-5)
            self.assertEqual("bf16" in step.text(), mixed)
        self.model.append(torch.nn.Dropout(0.5))
        dropped = dtc.torch.parallelize(model, {"inner.0.weight": []}, mesh=self.mesh)
        dropped(self.x, self.y)[0].backward()
        with self.assertRaisesRegex(dtc.UsageError, r"input 'y\[1\]': expected a tensor or a plain value, but got object"):
            step(self.x, [self.y, object()])

    def test_keywords_structured_outputs_and_gradients_of_inputs(self):
        import torch
        import dtc.torch

        class Named(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
                self.register_buffer("steps", torch.zeros(()))

            def forward(self, x, labels=None, *, scale=1.0, extra=()):
                self.steps += 1
                logits = self.inner(x) * scale + sum(extra)
                return {"logits": logits, "note": "text", "loss": torch.nn.functional.cross_entropy(logits, labels)}

        model = Named(self.model)
        step = dtc.torch.parallelize(model, {"inner.0.weight": []}, mesh=self.mesh, inputs={"labels": "{(dp, tp)}"})
        extra = torch.randn(4, requires_grad=True)
        for scale in (1.0, 0.5):
            x = self.x.clone().requires_grad_()
            found = []
            for f in (step, model):
                x.grad = extra.grad = None
                model.zero_grad()
                out = f(x, labels=self.y, scale=scale, extra=[extra])
                (out["loss"] * 2).backward()
                found.append((out["loss"], out["logits"], x.grad, extra.grad, *[p.grad.clone() for p in model.parameters()]))
            self.assertEqual((list(out), out["note"]), (["logits", "note", "loss"], "text"))
            for got, want in zip(*found):
                torch.testing.assert_close(got, want)
        self.assertEqual(int(model.steps), 4)
        with torch.no_grad():
            torch.testing.assert_close(step(self.x, labels=self.y)["loss"], model(self.x, labels=self.y)["loss"])
        text = step.text()
        self.assertNotIn("grad_", text)
        self.assertRegex(text, r"%inner_0_weight: +f32\[8, 6\]")
        self.assertRegex(text, r"%labels: +i64\[8\] +@mesh\{\(dp, tp\)\}")
        self.assertIn("test_torch_distributed.py:", text)
        for inputs, message in (({"y": "{dp}"}, "the call has the inputs x, labels"),
                                ({"x": "{pp, _}"}, "the mesh has the axes dp, tp")):
            with self.assertRaisesRegex(dtc.UsageError, message):
                dtc.torch.parallelize(model, {}, mesh=self.mesh, inputs=inputs)(self.x, labels=self.y)
        with self.assertRaisesRegex(dtc.UsageError, r"the loss has the shape \[8, 4\], but must be one number"):
            dtc.torch.parallelize(self.model, {}, mesh=self.mesh)(self.x)

    def test_mixed_precision(self):
        import copy

        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        import dtc.torch

        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output_dtype=torch.float32)
        loss = torch.nn.functional.cross_entropy
        step = dtc.torch.parallelize(
            self.model, lambda model: fully_shard(model, mesh=self.mesh["dp"], mp_policy=policy), loss=loss
        )
        got = step(self.x, self.y)
        got.backward()
        rounded = copy.deepcopy(self.model).bfloat16()
        want = loss(rounded(self.x.bfloat16()).float(), self.y)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
        self.assertEqual({p.grad.dtype for p in self.model.parameters()}, {torch.float32})
        lowered = dtc.command(["opt", "-", "-p", "propagate,partition"], input=step.text())
        self.assertRegex(lowered, r"all_gather .*bf16")
        self.assertRegex(lowered, r"all_reduce .*dp, tp.* f32\[8, 6\]")
        step.check()

    def test_code_that_a_plan_traces(self):
        import torch
        from torch.distributed.fsdp import fully_shard
        import dtc.torch

        held = torch.randn(8)

        class Held(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)
                self.down.weight = torch.nn.Parameter(self.up.weight.detach().T.contiguous())
                self.again = torch.nn.Linear(6, 8)
                self.again.weight = self.up.weight

            def forward(self, x):
                h = self.up(x) * held + self.again(x) * torch.tensor(2.0)
                h = torch.where(h > 0, h, h.new_tensor(-0.5))
                h = torch.cond(h.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (h,))
                h = torch.utils.checkpoint.checkpoint(lambda y: torch.nn.functional.gelu(y), h, use_reentrant=False)
                assert torch.compiler.is_compiling() or h.sum().item() < 1e9
                return {"hidden": h, "loss": self.down(h).square().mean()}

        model = Held()
        step = dtc.torch.parallelize(model, lambda m: fully_shard(m, mesh=self.mesh["dp"]))
        found = []
        for f in (step, model):
            model.zero_grad()
            out = f(self.x)
            out["loss"].backward()
            found.append([out["loss"], out["hidden"], *[p.grad.clone() for p in model.parameters()]])
        for got, want in zip(*found):
            torch.testing.assert_close(got, want)
        self.assertRegex(step.text(), r"%loss: .*\n +%hidden: ")
        step.check()

        class Looks(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.ones(6))

            def forward(self, x):
                return (self.w * x).sum() if x.sum() > 0 else self.w.sum()

        with self.assertRaisesRegex(dtc.UsageError, "test_torch_distributed.py:[0-9]+: the program depends on numbers"):
            dtc.torch.parallelize(Looks(), {}, mesh=self.mesh)(self.x)
        for wrong, plan, message in ((torch.relu, {}, "takes a torch.nn.Module, not"),
                                     (fully_shard(Looks(), mesh=self.mesh["dp"]), {}, "is parallelized already")):
            with self.assertRaisesRegex(dtc.UsageError, message):
                dtc.torch.parallelize(wrong, plan, mesh=self.mesh)
        with self.assertRaisesRegex(dtc.UsageError, "it has 1 dims, but the tensor has 2"):
            dtc.torch.parallelize(model, {}, mesh=self.mesh, inputs={"x": "{dp}"})(self.x)

    def test_ops_without_a_row(self):
        import torch
        import dtc.torch

        class Sampled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.eye(4))

            def forward(self, x):
                return torch.poisson((self.w * x).detach()).sum() * self.w.sum()

        step = dtc.torch.parallelize(Sampled(), {}, mesh=self.mesh)
        with self.assertRaisesRegex(dtc.ProgramError, "aten.poisson.*it has no counterpart yet; the model may"):
            step(torch.ones(4, 4))

    def test_recurrent(self):
        import torch
        import dtc.torch

        class Last(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.out = torch.nn.LSTM(6, 8, num_layers=2, batch_first=True), torch.nn.Linear(8, 4)

            def forward(self, x):
                return self.out(self.rnn(x)[0][:, -1])

        self.model, self.x = Last(), torch.randn(8, 3, 6)
        self.check({"out.weight": []}, mesh=self.mesh)

    def test_sharded_results_of_local_programs(self):
        import torch
        import dtc.torch
        from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

        model = parallelize_module(torch.nn.Linear(6, 8), self.mesh["tp"], ColwiseParallel(use_local_output=False))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/local.pt2"
            with self.assertRaisesRegex(dtc.UsageError, "result 0 is a DTensor"):
                dtc.torch.export_local(model, (self.x,), path)
            dtc.torch.export_local(model, (self.x,), path, outputs={0: "{_, tp}"})
            text = dtc.command(["import", path])
            self.assertRegex(text, r"%tangents_1: +f32\[8, 4\] of f32\[8, 8\] @mesh\{_, tp\}")

    def test_local_programs_that_differ(self):
        import torch
        import dtc.torch
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

        for model, x in ((torch.nn.Embedding(16, 4), self.y), (torch.nn.Linear(6, 4), self.x)):
            parallelize_module(model, self.mesh["tp"], RowwiseParallel(input_layouts=Replicate()))
            with tempfile.TemporaryDirectory() as folder, self.assertWarnsRegex(UserWarning, "device 3 runs another program"):
                dtc.torch.export_local(model, (x,), f"{folder}/local.pt2")

    def test_meshes_without_names(self):
        """Their axes are d0, d1, …"""
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.parallel import parallelize_module
        import dtc.torch

        row, grid = (dist.device_mesh.init_device_mesh("cpu", shape) for shape in ((4,), (2, 2)))
        text = self.check(lambda model: fully_shard(model, mesh=row)).text()
        self.assertRegex(text, r"mesh @\w+ = \[d0=4\]")
        text = self.check({"0.weight": [Shard(0), Replicate()]}, mesh=grid).text()
        self.assertRegex(text, r"mesh @\w+ = \[d0=2, d1=2\]")
        self.assertIn("all_reduce", str(self.check(self.styles(), mesh=row, data=()).explain()))
        parallelize_module(self.model, row, self.styles())
        with tempfile.TemporaryDirectory() as folder:
            dtc.torch.export_local(self.model, (self.x,), f"{folder}/local.pt2")
            self.assertIn("all_reduce", dtc.command(["audit", f"{folder}/local.pt2"]))

    def test_wrong_plans(self):
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Replicate, Shard
        import dtc.torch

        unnamed, two = (dist.device_mesh.DeviceMesh("cpu", list(range(n))) for n in (4, 2))
        grid = dist.device_mesh.init_device_mesh("cpu", (2, 2))
        for plan, mesh, message in (
            (self.styles(), None, "needs mesh="),
            ({"up.weight": [Shard(0)]}, self.mesh, "'up.weight', which the model does not have"),
            (lambda m: fully_shard(m, mesh=unnamed), two, "the mesh axis 'd0' has the size 4, and 2 in the root mesh"),
            ({**self.styles()}, grid, "give mesh one dim, or call one of them 'tp'"),
            ({"0.weight": [Shard(0)]}, self.mesh, "1 placements are given for a mesh of 2 dims"),
            ({"0.weight": [Replicate(), Shard(2)]}, self.mesh, "shards a dim that a tensor of rank 2 does not have"),
            ({"0.weight": "tp"}, self.mesh, "expected a parallel style or placements, but got str"),
            ({"up": self.styles()["0"]}, self.mesh, "the module 'up', which the model does not have"),
            (3, self.mesh, "expected a plan: .* but got int"),
        ):
            with self.assertRaisesRegex(dtc.UsageError, message):
                dtc.torch.parallelize(self.model, plan, mesh=mesh)

    def test_local_program(self):
        import copy

        import torch
        from torch.distributed.tensor.parallel import parallelize_module
        import dtc.torch

        parallel = copy.deepcopy(self.model)
        parallelize_module(parallel, self.mesh["tp"], self.styles())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "local.pt2")
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                dtc.torch.export_local(parallel, (self.x,), path)
            self.assertIn("all_reduce", dtc.command(["audit", path]))
            out = self.model(self.x)
            tangent = torch.randn_like(out)
            out.backward(tangent)
            results = dtc.compile(path, results="torch")(*[p.detach() for p in self.model.parameters()], self.x, tangent)
        torch.testing.assert_close(results[0], out)
        for got, p in zip(results[1:], self.model.parameters()):
            torch.testing.assert_close(got, p.grad, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
