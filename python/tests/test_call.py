"""The package dtc: compilation, calls, errors, reports. Run with `python -m unittest discover python/tests`."""

import os
import pathlib
import re
import signal
import tempfile
import threading
import time
import unittest

import dtc
import numpy as np
from programs import MATMUL, ROOT, importable, module, unary


class Calls(unittest.TestCase):
    def setUp(self):
        self.x = np.arange(12, dtype=np.float32).reshape(4, 3)
        self.w = np.arange(15, dtype=np.float32).reshape(3, 5)

    def test_package_with_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            path, weights = os.path.join(folder, "p.dtcpkg"), os.path.join(folder, "w.npz")
            np.savez(weights, w=self.w)
            dtc.command(["compile", "-", "--emit", "package", "--weights", weights, "-o", path], input=MATMUL)
            os.remove(weights)
            f = dtc.compile(path)
            for _ in range(2):
                np.testing.assert_array_equal(f(self.x), self.x @ self.w)
            self.assertEqual(f.bind({"w": 2 * self.w})(self.x).tolist(), (2 * self.x @ self.w).tolist())
            np.savez(weights, w=3 * self.w)
            again = dtc.compile(path)
            for _ in range(2):  # also in place of a mapped weight that a run has used
                again(self.x)
                np.testing.assert_array_equal(again.bind_file(weights)(self.x), self.x @ (3 * self.w))

    def test_bound_weights_with_symbolic_sizes(self):
        text = "func @main(%x: f32[B, 3], %w: f32[3, 5]) -> (%y: f32[B, 5]) {\n  %y = matmul %x, %w\n  return %y\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "w.npz")
            np.savez(weights, w=self.w)
            of_file = dtc.compile(text).bind_file(weights)
            of_tensor = dtc.compile(text).bind({"w": self.w})
            for f in (of_file, of_tensor):
                for rows in (4, 2, 4):
                    np.testing.assert_allclose(f(self.x[:rows]), self.x[:rows] @ self.w)
                with self.assertRaisesRegex(TypeError, r"expected 1 argument \(x\), got 2"):
                    f(self.x, self.w)

    def test_file_without_arguments(self):
        text = "func @main(%x: f32[B, 3], %w: f32[3, 5]) -> (%y: f32[B, 5]) {\n  %y = matmul %x, %w\n  return %y\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            weights = os.path.join(folder, "w.npz")
            np.savez(weights, weight=self.w)
            for program in (text, MATMUL):
                with self.assertRaisesRegex(dtc.ProgramError, "no tensor that is an argument: its tensors are weight"):
                    dtc.compile(program).bind_file(weights)

    def test_description(self):
        f = dtc.compile(MATMUL)
        self.assertEqual([v.name for v in f.arguments], ["x", "w"])
        self.assertEqual((f.arguments[0].dtype, f.arguments[0].shape, f.arguments[0].sharding), ("f32", (4, 3), "{d, _}"))
        self.assertEqual((f.mesh, f.num_devices), ({"d": 2}, 2))
        self.assertIn("%x: f32[4, 3]{d, _}", repr(f))
        self.assertIn("spmd", f.text)

    def test_values(self):
        np.testing.assert_array_equal(dtc.compile(MATMUL)(self.x, self.w), self.x @ self.w)

    def test_type_of_results(self):
        for results in ("numpy", np.ndarray):
            self.assertIsInstance(dtc.compile(MATMUL, results=results)(self.x, self.w), np.ndarray)

    def test_by_name(self):
        f = dtc.compile(MATMUL)
        np.testing.assert_array_equal(f(w=self.w, x=self.x), self.x @ self.w)
        np.testing.assert_array_equal(f(self.x, w=self.w), self.x @ self.w)
        for given in ({"w": self.w}, {"x": self.x, "w": self.w, "z": self.x}):
            with self.assertRaises(TypeError):
                f(**given)
        with self.assertRaises(TypeError):
            f(self.x, x=self.x, w=self.w)

    def test_strides(self):
        f = dtc.compile(MATMUL)
        np.testing.assert_array_equal(f(np.asfortranarray(self.x), self.w), self.x @ self.w)
        np.testing.assert_array_equal(f(self.x[::-1], self.w[:, ::-1]), self.x[::-1] @ self.w[:, ::-1])
        wide = np.zeros((8, 6), np.float32)
        wide[::2, ::2] = self.x
        np.testing.assert_array_equal(f(wide[::2, ::2], self.w), self.x @ self.w)

    def test_out(self):
        f = dtc.compile(MATMUL)
        y = np.zeros((4, 5), np.float32)
        f(self.x, self.w, out=[y])
        np.testing.assert_array_equal(y, self.x @ self.w)
        read_only = np.zeros((4, 5), np.float32)
        read_only.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "'y' has no memory that dtc can write"):
            f(self.x, self.w, out=[read_only])
        with self.assertRaisesRegex(TypeError, "out= must be a tuple or list"):
            f(self.x, self.w, out=y)
        np.testing.assert_array_equal(read_only, 0)

    def test_results_outlive_runs(self):
        f = dtc.compile(MATMUL)
        first = f(self.x, self.w)
        kept = first.copy()
        f(self.x + 1, self.w)
        del f
        np.testing.assert_array_equal(first, kept)

    def test_shards(self):
        f = dtc.compile(MATMUL)
        shards = f.run_shards(self.x[:2], self.x[2:], self.w, self.w)
        self.assertEqual(len(shards), 2)
        np.testing.assert_array_equal(np.concatenate([np.asarray(s) for s in shards])[:4], (self.x @ self.w)[:4])

    def test_dtypes(self):
        for name, dtype in (("f64", np.float64), ("f16", np.float16), ("i8", np.int8), ("i64", np.int64)):
            x = np.array([1, -2, 3, -4], dtype)
            y = dtc.compile(unary("neg", name))(x)
            self.assertEqual(y.dtype, dtype)
            np.testing.assert_array_equal(y, -x)
        x = np.array([True, False, True, True])
        np.testing.assert_array_equal(dtc.compile(unary("not", "bool"))(x), ~x)
        c = np.array([1 + 2j, 3j, 4, -1j], np.complex64)
        np.testing.assert_array_equal(dtc.compile(unary("neg", "c64"))(c), -c)

    def test_small_floats(self):
        ml_dtypes = module("ml_dtypes", self)
        for name, dtype in (("bf16", ml_dtypes.bfloat16), ("f8e4m3", ml_dtypes.float8_e4m3fn)):
            f = dtc.compile(unary("flip", name).replace("%x\n", "%x {dims = [0]}\n"))
            x = np.arange(4).astype(dtype)
            y = f(x)
            self.assertEqual(y.dtype, dtype)
            np.testing.assert_array_equal(f(y).astype(np.float32), np.arange(4))
            out = np.zeros(4, dtype)
            f(x, out=[out])
            np.testing.assert_array_equal(out.astype(np.float32), np.arange(4)[::-1])
            x.flags.writeable = False
            np.testing.assert_array_equal(f(x), y)
            with self.assertRaisesRegex(TypeError, "dtc can write"):
                f(x, out=[x])
        with self.assertRaisesRegex(TypeError, "'x' has"):
            dtc.compile(unary("neg", "i8"))(np.zeros(4, ml_dtypes.int4))
        with self.assertRaisesRegex(TypeError, "'x' has"):
            dtc.compile(unary("neg"))(np.array([1, None, 2, 3], object))

    def test_numbers(self):
        f = dtc.compile("func @main(%x: f32[2], %s: f32[], %k: i8[]) -> (%y: f32[2], %n: i8[]) {\n"
                        "  %y = mul %x, %s\n  %n = add %k, 1\n  return %y, %n\n}\n")
        y, n = f(np.ones(2, np.float32), 2.5, -7)
        np.testing.assert_array_equal(y, [2.5, 2.5])
        self.assertEqual(int(n), -6)
        g = dtc.compile("func @main(%k: u8[]) -> (%n: u8[]) {\n  %n = add %k, 1\n  return %n\n}\n")
        for wrong in (-1, 256, 1 << 70):
            with self.assertRaisesRegex(ValueError, "'k' does not hold this number: it is u8"):
                g(wrong)
        for wrong in (128, -129, "7", None, 1.5):
            with self.assertRaises((TypeError, ValueError, dtc.Error)):
                f(np.ones(2, np.float32), 2.5, wrong)

    @unittest.skipUnless(importable("ml_dtypes"), "needs ml_dtypes")
    def test_numbers_of_small_floats(self):
        """Rounded as ml_dtypes does: ties to even, subnormals, overflow."""
        import ml_dtypes

        numbers = [0.0, -0.0, 1, -2.5, 0.1, 1 / 3, 448, 464, 465, 57344, 61440, 61439, 65504, 65519.9, 65520, 1e-3, 1.5e-5, 1e-7]
        numbers += [2.0**-9, 2.0**-10, 3 * 2.0**-11, 2.0**-17, 2.0**-24, 2.0**-25, 5e-324, 1e300, -1e300, 1e-40, 3.4e38]
        numbers += [float("inf"), float("-inf"), float("nan")]
        kinds = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
        for name, kind in kinds.items():
            f = dtc.compile(f"func @main(%x: {name}[]) -> (%y: f32[]) {{\n  %y = convert %x {{dtype = f32}}\n  return %y\n}}\n")
            for number in numbers:
                with self.subTest(name, number=number), np.errstate(all="ignore"):
                    want = np.array(number, np.float64).astype(kind).astype(np.float32)
                    got = np.asarray(f(number))
                    np.testing.assert_array_equal(got, want)
                    self.assertEqual(np.signbit(got), np.signbit(want))

    def test_wrong_texts(self):
        for text in ("func @main(", "func @f(%x: f32[2]) -> (%y: f32[2]) { %y = mul %x, 2.5"):
            with self.assertRaisesRegex(dtc.ProgramError, "<text>:1:"):
                dtc.compile(text)
        for path in ("none.dt", "folder (1)/none.pt2", "none"):
            with self.assertRaisesRegex(dtc.ProgramError, "cannot read"):
                dtc.compile(path)
        with self.assertRaisesRegex(dtc.UsageError, r"the text of the program has the character '\\udcff' at position 11"):
            dtc.compile("func @main(\udcff")
        with self.assertRaisesRegex(dtc.UsageError, "the path has the character"):
            dtc.compile("\udcff.dt")

    def test_wrong_tensors(self):
        f = dtc.compile(MATMUL)
        with self.assertRaisesRegex(dtc.ProgramError, r"expected f32\[3, 5\]"):
            f(self.x, self.x)
        with self.assertRaises(dtc.ProgramError):
            f(self.x.astype(np.float64), self.w)
        with self.assertRaisesRegex(TypeError, "expected 2 arguments, got 1"):
            f(self.x)
        with self.assertRaisesRegex(TypeError, "'x' must be a tensor"):
            f([[1.0]], self.w)
        np.testing.assert_array_equal(f(self.x, self.w), self.x @ self.w)

    def test_meshes_and_shardings(self):
        plain = re.sub(r"mesh.*\n", "", MATMUL).replace(" @m{d, _}", "")
        f = dtc.compile(plain, mesh={"pod": {"a": 2, "b": 5}}, shardings={"x": "{a, _}", "w": "{_, b}"})
        self.assertEqual(f.num_devices, 10)
        self.assertEqual(f.results[0].sharding, "{a, b}")
        np.testing.assert_array_equal(f(self.x, self.w), self.x @ self.w)
        f = dtc.compile(plain, mesh={"pod": {"a": 2, "b": 5}}, shardings={"x": ("a", None), "w": [None, ("b",)]})
        self.assertEqual(f.results[0].sharding, "{a, b}")
        f = dtc.compile(plain, mesh="pod=a:2,b:2", shardings={"x": (("a", "b"), None)})
        self.assertEqual(f.arguments[0].sharding, "{(a, b), _}")
        with self.assertRaisesRegex(dtc.UsageError, "no argument 'v'"):
            dtc.compile(plain, mesh="pod=a:2", shardings={"v": "{a, _}"})
        for wrong in ({"a": 2}, [2, 3], 4):
            with self.assertRaisesRegex(TypeError, "expected the axes of each mesh"):
                dtc.compile(plain, mesh=wrong)
        for wrong in (3, (3, None)):
            with self.assertRaisesRegex(TypeError, "shardings: 'x' has"):
                dtc.compile(plain, mesh="pod=a:2", shardings={"x": wrong})
        with self.assertRaisesRegex(dtc.UsageError, "no mesh"):
            dtc.compile(plain, shardings={"x": "{a, _}"})

    def test_carry_over_without_carried_results(self):
        f = dtc.compile(unary("neg"))
        for _ in range(2):
            with self.assertRaisesRegex(dtc.UsageError, "^error: carry_over needs a successful run since the last carry_over"):
                f.carry_over()
            f(np.ones(4, np.float32))
            f.carry_over()

    def test_symbolic_sizes(self):
        f = dtc.compile("func @main(%x: f32[B, 2], %s: f32[]) -> (%y: f32[B, 2]) {\n  %y = mul %x, %s\n  return %y\n}\n", cache_size=2)
        self.assertIn("symbolic sizes", repr(f))
        for b in (1, 3, 1, 5, 7, 1):
            self.assertEqual(f(np.ones((b, 2), np.float32), s=2).shape, (b, 2))
            self.assertLessEqual(len(f._sized), 2)

    def test_wrong_sizes(self):
        f = dtc.compile("func @main(%x: f32[B, 4], %s: f32[]) -> (%y: f32[B, 4]) {\n  %y = mul %x, %s\n  return %y\n}\n")
        with self.assertRaisesRegex(dtc.ProgramError, r"argument %x: expected f32\[B, 4\], got f32\[3\]"):
            f(np.ones(3, np.float32), 2.0)
        for wrong in ("a", [1.0]):
            with self.assertRaisesRegex(TypeError, f"'x' must be a tensor of NumPy.*, not {type(wrong).__name__}"):
                f(wrong, 2.0)
        with self.assertRaisesRegex(TypeError, "'x' is None, but symbolic sizes follow from its shape"):
            f(None, 2.0)
        with self.assertRaisesRegex(dtc.Error, "bind each with dims={NAME: SIZE}, or by a tensor") as raised:
            dtc.compile("func @main(%s: f32[]) -> (%y: f32[B]) {\n  %y = broadcast %s {shape = [B]}\n  return %y\n}\n")(1.0)
        self.assertNotIn("dtc_options", str(raised.exception))
        with self.assertRaisesRegex(TypeError, "expected 2 arguments, got 1: no %s"):
            f(np.ones((3, 4), np.float32))
        np.testing.assert_array_equal(f(np.ones((3, 4), np.float32), 2.0), np.full((3, 4), 2.0))

    def test_links_of_the_documentation(self):
        import os
        import re

        try:
            docs = dtc.get_docs()
        except FileNotFoundError:
            self.skipTest("a build tree has no documentation")
        for folder, _, files in os.walk(docs):
            for name in (f for f in files if f.endswith(".md")):
                with open(os.path.join(folder, name)) as page:
                    text = re.sub(r"```.*?```|`[^`]*`", "", page.read(), flags=re.DOTALL)
                for link in re.findall(r"\]\(([^)#\s]+)", text):
                    if not re.match(r"https?:", link):
                        self.assertTrue(os.path.exists(os.path.join(folder, link)), f"{folder}/{name}: {link}")

    def test_no_tensor(self):
        with self.assertRaisesRegex(dtc.UsageError, r"argument %x is given no tensor \(None in Python.* there is none"):
            dtc.compile(MATMUL)(None, np.ones((3, 5), np.float32))

    def test_carry_without_run(self):
        step = ("func @main(%w: f32[4], %g: f32[4]) -> (%w: f32[4] {carry = true}) {\n  %n = sub %w, %g\n"
                "  return %n\n}\n")
        f = dtc.compile(step)
        one = np.ones(4, np.float32)
        for _ in range(2):
            with self.assertRaisesRegex(dtc.UsageError, "argument %w has no value"):
                f.carry_over()
            with self.assertRaisesRegex(dtc.UsageError, "argument %w is given no tensor"):
                f(None, one)
        f(one, one)
        f.carry_over()
        np.testing.assert_array_equal(f(None, one), -one)

    def test_refused_calls_change_nothing(self):
        step = dtc.compile("func @step(%x: f32[2], %w: f32[2] {donate = true}) -> (%w: f32[2] {carry = true}) {\n"
                           "  %v = add %w, %x\n  return %v\n}\n")
        one, wrong = np.ones(2, np.float32), (np.ones(3, np.float32), np.ones(2, np.int32), None, "x")
        step(one, one)
        for x in wrong:  # the result is there still
            with self.assertRaises((TypeError, dtc.Error)):
                step(x, one)
        step.carry_over()
        for x in wrong:  # and what was carried over
            with self.assertRaises((TypeError, dtc.Error)):
                step(x, None)
        np.testing.assert_array_equal(step(one, None), 3 * one)

    def test_not_copied(self):
        import copy
        import pickle

        f = dtc.compile(MATMUL)
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "cannot be pickled or copied"):
                attempt(f)

    def test_carry(self):
        step = dtc.compile("func @step(%x: f32[], %w: f32[] {donate = true}) -> (%w: f32[] {carry = true}) {\n"
                           "  %v = add %w, %x\n  return %v\n}\n")
        w = step(np.float32(1), np.float32(10))
        for _ in range(3):
            step.carry_over()
            w = step(np.float32(1), None)
        self.assertEqual(float(w), 14)

    def test_threads(self):
        f, g = dtc.compile(MATMUL), dtc.compile(MATMUL, backend="cpu", opt_level=2)
        wrong = []

        def work(seed):
            x = np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32)
            for _ in range(50):
                for h in (f, g):
                    if not np.allclose(h(x, self.w), x @ self.w, atol=1e-4):
                        wrong.append(seed)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


LONG = """func @main(%x: f32[64]) -> (%y: f32[64]) {
  %y = for %i in 0..100000000 (%h = %x) {
    %s = sin %h
    %m = sum %s {dims = [0]}
    %a = add %s, %m
    yield %a
  }
  return %y
}
"""


class UnknownArguments(unittest.TestCase):
    def test_suggestions(self):
        for name, expected in (("sharding", "did you mean shardings="), ("in_shardings", "did you mean shardings="),
                               ("num_threads", "did you mean threads="), ("policy", "options={'policy': ...}")):
            with self.assertRaisesRegex(TypeError, f"dtc.compile has no argument '{name}'; .*{expected}"):
                dtc.compile(unary("neg"), **{name: 1})


class Interrupts(unittest.TestCase):
    def interrupted(self, f, x):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                f(x)
        finally:
            timer.join()
        return time.monotonic() - begin

    def test_keyboard_interrupt(self):
        x = np.ones(64, np.float32)
        for options in ({}, {"backend": "cuda-emu"}, {"threads": 2, "mesh": {"m": {"a": 2}}, "shardings": {"x": "{a}"}}):
            with self.subTest(**options):
                f = dtc.compile(LONG, **options)
                for _ in range(2):  # it may be called again
                    self.assertLess(self.interrupted(f, x), 10)

    def test_other_signals(self):
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        f = dtc.compile(LONG)
        self.interrupted(f, np.ones(64, np.float32))
        timer.join()
        self.assertEqual(seen, [1])


class Programs(unittest.TestCase):
    def test_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.dt"
            path.write_text(unary("neg"))
            for given in (path, str(path)):
                np.testing.assert_array_equal(dtc.compile(given)(np.ones(4, np.float32)), -1)

    def test_package(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.dtcpkg")
            dtc.command(["compile", "-", "--emit", "package", "-o", path], input=unary("neg"))
            np.testing.assert_array_equal(dtc.compile(path)(np.ones(4, np.float32)), -1)
            for options in ({"backend": "cuda"}, {"mesh": {"m": {"a": 2}}}, {"dims": {"B": 1}}, {"entry": "@other"}):
                with self.assertRaisesRegex(dtc.UsageError, "is a package, which runs as it was compiled"):
                    dtc.compile(path, **options)

    def test_package_of_a_gpu_in_the_emulator(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.dtcpkg")
            try:
                dtc.command(["compile", "-", "--emit", "package", "--target", "sm_90a", "-o", path], input=unary("neg"))
            except dtc.MachineError as error:
                self.skipTest(str(error))  # no NVRTC
            x = np.arange(4, dtype=np.float32)
            np.testing.assert_array_equal(dtc.compile(path, backend="cuda-emu")(x), -x)
            with self.assertRaisesRegex(dtc.UsageError, "for sm_90a, not with the backend cpu"):
                dtc.compile(path, backend="cpu")

    def test_results_that_share_memory(self):
        f = dtc.compile("func @main(%x: f32[4]) -> (%y: f32[4], %z: f32[4]) {\n  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}\n")
        out = np.empty(8, np.float32)
        f(np.ones(4, np.float32), out=[out[:4], out[4:]])
        with self.assertRaisesRegex(dtc.UsageError, "the memory of the results 0 and 1 overlaps"):
            f(np.ones(4, np.float32), out=[out[:4], out[2:6]])
        rows = np.zeros((4, 2), np.float32)
        f(np.ones(4, np.float32), out=[rows[:, 0], rows[:, 1]])
        np.testing.assert_allclose(rows, [[-1, np.exp(1)]] * 4, rtol=1e-6)
        f(np.ones(4, np.float32), out=[rows[::-1, 1], rows[:, 0]])
        with self.assertRaisesRegex(dtc.UsageError, "the memory of the results 0 and 1 overlaps"):
            f(np.ones(4, np.float32), out=[rows.reshape(-1)[2:6], rows[:, 0]])
        same = np.lib.stride_tricks.as_strided(rows, (4,), (0,))
        with self.assertRaisesRegex(dtc.UsageError, "the memory of result 1 overlaps itself"):
            f(np.ones(4, np.float32), out=[out[:4], same])

    def test_bytes(self):
        import runpy
        import sys
        from unittest import mock

        with tempfile.TemporaryDirectory() as folder:
            path, inputs = os.path.join(folder, "mlp.pt2"), ROOT / "test/Torch/Inputs"
            with mock.patch.object(sys, "argv", ["make-pt2.py", str(inputs / "mlp.json"), path]):
                runpy.run_path(str(inputs / "make-pt2.py"), run_name="__main__")
            of_bytes, of_file = dtc.compile(pathlib.Path(path).read_bytes(), name="mlp.pt2"), dtc.compile(path)
            self.assertEqual([v.user_name for v in of_bytes.arguments], [v.user_name for v in of_file.arguments])
            x = np.arange(24, dtype=np.float32).reshape(3, 8)
            np.testing.assert_array_equal(of_bytes(x)[0], of_file(x)[0])
            renamed = os.path.join(folder, "mlp.bin")
            os.rename(path, renamed)
            np.testing.assert_array_equal(dtc.compile(renamed)(x)[0], of_file(x)[0])
        with self.assertRaisesRegex(dtc.Error, "mlp.pt2"):
            dtc.compile(b"PK\x03\x04 archive_format /models/model.json", name="mlp.pt2")

    def test_bytes_of_a_package(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/neg.dtcpkg"
            dtc.command(["compile", "-", "--emit", "package", "-o", path], input=unary("neg"))
            with self.assertRaisesRegex(dtc.UsageError, "a package is loaded from a file"):
                dtc.compile(pathlib.Path(path).read_bytes())

    def test_missing_path(self):
        with self.assertRaisesRegex(dtc.Error, "no-such-file.dt"):
            dtc.compile("no-such-file.dt")

    def test_diagnostics(self):
        with self.assertRaises(dtc.ProgramError) as caught:
            dtc.compile(unary("relo"), name="p.dt")
        self.assertIn("p.dt:2:8: error: unknown op 'relo'", str(caught.exception))
        d = caught.exception.diagnostics[0]
        self.assertEqual((d.kind, d.file, d.line, d.column), ("unknown-op", "p.dt", 2, 8))

    def test_messages(self):
        self.assertEqual(f"{dtc.ProgramError.__module__}.{dtc.ProgramError.__qualname__}", "dtc.ProgramError")
        with self.assertRaisesRegex(TypeError, "words one by one"):
            dtc.command("opt -")
        with self.assertRaisesRegex(dtc.UsageError, "empty text"):
            dtc.compile("")
        with self.assertRaisesRegex(TypeError, "expected 1 argument, got 2"):
            dtc.compile(unary("neg"))(1, 2)

    def test_wrong_options(self):
        for options in ({"backend": "gpu"}, {"opt_level": 7}, {"options": {"polizy": "cost"}}, {"entry": "nope"}, {"results": int},
                        {"bind": {"q": [1]}},
                        {"dims": {"B": 3.5}}, {"cache_size": -1}, {"cache_size": "a"}, {"cache_size": 1.5}, {"cache_size": True}):
            with self.assertRaises(dtc.UsageError):
                dtc.compile(unary("neg"), **options)
        with self.assertRaises(dtc.UsageError):
            dtc.compile(42)

    def test_reports(self):
        f = dtc.compile(MATMUL)
        self.assertIn("sharded along d", str(f.explain("y")))
        self.assertIn("<svg", f.view("y")._repr_svg_())
        self.assertIn("matmul", str(f.stats()))
        self.assertNotIn("f32[4, 5]", str(f.stats()))  # the results
        self.assertIn('"traceEvents"', f.trace().text)
        self.assertIn("add", dtc.command(["help", "ops"]))
        with self.assertRaisesRegex(dtc.UsageError, "unknown verb"):
            dtc.command(["rum"])

    def test_arguments_of_reports(self):
        """Those that a call takes, as it converts them."""
        scaled = "func @main(%x: DT[3, 4], %s: DT[]) -> (%y: DT[3, 4]) {\n  %y = mul %x, %s\n  return %y\n}\n"
        x = np.ones((3, 4), np.float32)
        f = dtc.compile(scaled.replace("DT", "f32"))
        for args in ((x, 2.0), (x, 2), (x[::-1], np.float32(2)), (np.asfortranarray(x), 2), (np.broadcast_to(np.float32(1), (3, 4)), 2)):
            self.assertIn("mul", str(f.stats(*args)))
            self.assertIn('"traceEvents"', f.trace(*args).text)
        with self.assertRaisesRegex(TypeError, "expected 2 arguments, got 1"):
            f.stats(x)
        with self.assertRaisesRegex(TypeError, "'s' must be a tensor"):
            f.stats(x, "2")
        for dtype, array in (("f16", np.float16), ("f64", np.float64), ("c64", np.complex64), ("i32", np.int32)):
            self.assertIn("neg", str(dtc.compile(unary("neg", dtype)).stats(np.ones(4, array))))
        bound = dtc.compile(scaled.replace("DT", "f32")).bind({"s": np.float32(3)})
        self.assertIn("mul", str(bound.stats(x)))
        symbolic = dtc.compile(scaled.replace("DT", "f32").replace("[3,", "[B,"))
        self.assertIn("mul", str(symbolic.stats(np.ones((2, 4), np.float32), 2)))
        self.assertIn("mul", str(symbolic.stats()))

    def test_target_of_reports(self):
        self.assertIn("the schedule for cpu", str(dtc.compile(MATMUL).explain()))
        self.assertIn("the schedule for sm_90a", str(dtc.compile(MATMUL, backend="cuda-emu").explain()))

    def test_pages(self):
        f = dtc.compile(MATMUL)
        page = f.report()
        self.assertEqual(page.data["programs"][0]["target"], "cpu")
        self.assertEqual(f.report("sm_90a").data["programs"][0]["target"], "sm_90a")
        self.assertIn("&lt;script id=&quot;data&quot;", page._repr_html_())
        self.assertNotIn("<script", page._repr_html_())  # it is in the frame
        self.assertIn("postMessage({theme:", page._repr_html_())  # the frame cannot see the theme of the notebook
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.html")
            page.save(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), page.html)
        self.assertFalse(dtc.diff(f, f).data["changed"])
        self.assertEqual(dtc.diff(f, f).data["b"]["name"], "b.dt")
        changed = dtc.diff(f, dtc.compile(MATMUL, mesh={"m": {"d": 4}}))
        self.assertEqual([c["kind"] for c in changed.data["causes"]], ["setting"])
        with self.assertRaisesRegex(dtc.Error, "--max-memory 0 is exceeded"):
            dtc.diff(f, f, ["--max-memory", "0"])


class Docs(unittest.TestCase):
    def test_page(self):
        """The Python of docs/python.md runs in order."""
        page = (ROOT / "docs" / "python.md").read_text()
        state = {}
        os.chdir(ROOT)
        for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
            exec(compile(block, "docs/python.md", "exec"), state)


if __name__ == "__main__":
    unittest.main()
