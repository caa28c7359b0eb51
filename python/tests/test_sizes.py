"""Files with dynamic dims, whose ops need sizes as numbers: compiled for the shapes of each call."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import dtc
import numpy as np
from programs import ROOT

INPUT = """input {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_param: "N" }} dim {{ dim_value: 8 }} }} }} }} }}
  output {{ name: "y" type {{ tensor_type {{ elem_type: 1 }} }} }}
  {}"""
HEAD = "ir_version: 8\nopset_import { version: 17 }\ngraph {\n  "
WEIGHT = """initializer { name: "w" data_type: 1 dims: [8, 4] float_data: [%s] }
  """ % ", ".join(str(i % 5) for i in range(32))
# x @ w, and of it the last two rows.
LAST_ROWS = WEIGHT + """initializer { name: "from" data_type: 7 dims: 1 int64_data: -2 }
  initializer { name: "to" data_type: 7 dims: 1 int64_data: 1000000 }
  initializer { name: "axis" data_type: 7 dims: 1 int64_data: 0 }
  node { op_type: "MatMul" input: ["x", "w"] output: "h" }
  node { op_type: "Slice" input: ["h", "from", "to", "axis"] output: "y" }
"""
# x + 0, 1, ... by row. Of the weight only the shape is used.
NUMBERED = WEIGHT + """initializer { name: "zero" data_type: 7 int64_data: 0 }
  initializer { name: "one" data_type: 7 int64_data: 1 }
  initializer { name: "last" data_type: 7 dims: 1 int64_data: 1 }
  node { op_type: "Shape" input: "x" output: "shape" }
  node { op_type: "Gather" input: ["shape", "zero"] output: "n" }
  node { op_type: "Shape" input: "w" output: "w_shape" }
  node { op_type: "Range" input: ["zero", "n", "one"] output: "rows" }
  node { op_type: "Cast" input: "rows" output: "numbers" attribute { name: "to" type: 2 i: 1 } }
  node { op_type: "Unsqueeze" input: ["numbers", "last"] output: "column" }
  node { op_type: "Add" input: ["x", "column"] output: "y" }
"""


class Sizes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def model(self, nodes, name="m.onnx"):
        path = os.path.join(self.folder, name)
        pathlib.Path(path + ".txt").write_text(HEAD + INPUT.format("") + nodes + "}\n")
        subprocess.run([sys.executable, ROOT / "test/tools/onnx-text", path + ".txt", path], check=True)
        return path

    def test_slice_from_the_end(self):
        path = self.model(LAST_ROWS)
        w = np.array([i % 5 for i in range(32)], np.float32).reshape(8, 4)
        for program in (path, pathlib.Path(path).read_bytes()):
            for backend in ("cpu", "cuda-emu"):
                f = dtc.compile(program, backend=backend, cache_size=2)
                for rows in (4, 2, 5, 4):
                    x = np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)
                    np.testing.assert_array_equal(f(x), (x @ w)[-2:])
                self.assertEqual(len(f._sized), 2)

    def test_weights_that_are_not_used(self):
        f = dtc.compile(self.model(NUMBERED))
        for rows in (3, 5):
            x = np.ones((rows, 8), np.float32)
            np.testing.assert_array_equal(f(x), x + np.arange(rows, dtype=np.float32)[:, None])
        with self.assertRaisesRegex(TypeError, r"expected 1 argument \(x\), got 2"):
            f(x, x)
        with self.assertRaisesRegex(dtc.ProgramError, r"%x: expected f32\[N, 8\], got f32\[3, 7\]"):
            f(np.ones((3, 7), np.float32))

    def test_given_sizes(self):
        f = dtc.compile(self.model(LAST_ROWS), dims={"N": 3})
        self.assertEqual([v.name for v in f.arguments], ["x", "w"])
        self.assertEqual(f(np.ones((3, 8), np.float32)).shape, (2, 4))

    def test_unsupported_op(self):
        with self.assertRaisesRegex(dtc.ProgramError, "unsupported op 'Gelo'"):
            dtc.compile(self.model('node { op_type: "Gelo" input: "x" output: "y" }\n'))

    def test_command(self):
        with self.assertRaisesRegex(dtc.ProgramError, r"bind them with --dim N=NUMBER \[unbound-sizes\]"):
            dtc.command(["import", self.model(LAST_ROWS)])

    def test_reports(self):
        f = dtc.compile(self.model(LAST_ROWS))
        with self.assertRaisesRegex(dtc.ProgramError, r'--dim N=NUMBER'):
            f.view(what="graph")
        for rows in (4, 3):
            f(np.ones((rows, 8), np.float32))
            self.assertIn(f"f32[{rows}, 4]", f.view(what="graph").text)
            self.assertIn("does not communicate", f.explain().text)
            self.assertIn("step", f.stats().text)
        self.assertIn("dur", f.trace(np.ones((3, 8), np.float32)).text)

    def test_messages_name_arguments(self):
        program = "mesh @m = [a=2]\nfunc @f(%x: f32[N]) -> (%y: f32[N]) {\n  %y = neg %x\n  return %y\n}\n"
        for expected, given in ((r"dims: unknown symbolic size 'M'", {"dims": {"M": 3}}),
                                (r"mesh: unknown mesh", {"mesh": {"p": {"a": 2}}}),
                                (r'as in mesh="pod=dp:4,tp:2"', {"mesh": "m"}),
                                (r"entry: unknown function 'g'", {"entry": "g"})):
            with self.subTest(expected), self.assertRaisesRegex(dtc.Error, expected) as raised:
                dtc.compile(program, **given)
            self.assertNotIn("--", str(raised.exception))

    def test_bound_inputs(self):
        path = os.path.join(self.folder, "r.onnx")
        text = HEAD + INPUT.format('input { name: "axes" type { tensor_type { elem_type: 7 shape { dim { dim_value: 1 } } } } }\n')
        text += '  node { op_type: "ReduceSum" input: ["x", "axes"] output: "y" attribute { name: "keepdims" type: 2 i: 0 } }\n}\n'
        pathlib.Path(path + ".txt").write_text(text)
        subprocess.run([sys.executable, ROOT / "test/tools/onnx-text", path + ".txt", path], check=True)
        x = np.ones((3, 8), np.float32)
        np.testing.assert_array_equal(dtc.compile(path, bind={"axes": np.array([1])})(x), x.sum(1))
        np.save(path + ".npy", np.array([0]))
        np.testing.assert_array_equal(dtc.compile(path, bind={"axes": path + ".npy"})(x), x.sum(0))
        with self.assertRaisesRegex(dtc.ProgramError, r'bind={"axes": VALUE}'):
            dtc.compile(path)(x, np.array([1]))


if __name__ == "__main__":
    unittest.main()
