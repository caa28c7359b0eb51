"""Programs and packages that the tests share."""

import importlib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MATMUL = """mesh @m = [d=2]
func @main(%x: f32[4, 3] @m{d, _}, %w: f32[3, 5]) -> (%y: f32[4, 5]) {
  %y = matmul %x, %w
  return %y
}
"""


def unary(op, dtype="f32"):
    return f"func @main(%x: {dtype}[4]) -> (%y: {dtype}[4]) {{\n  %y = {op} %x\n  return %y\n}}\n"


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def module(name, test):
    """A package that the test needs."""
    if not importable(name):
        test.skipTest(f"needs {name}")
    return importlib.import_module(name)


def dtc_backend():
    """Of torch.compile."""
    import dtc.torch

    return dtc.torch.backend
