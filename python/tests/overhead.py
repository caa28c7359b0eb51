"""The cost of a call: the median time of warm calls of a tiny program with ten contiguous CPU tensors."""

import statistics
import time

import dtc

CALLS = 5000


def microseconds(make):
    arguments = ", ".join(f"%x{i}: f32[16]" for i in range(10))
    add = dtc.compile(f"func @main({arguments}) -> (%y: f32[16]) {{\n  %y = add %x0, %x1\n  return %y\n}}\n")
    tensors = [make() for _ in range(10)]
    times = []
    for call in range(CALLS + 1000):
        begin = time.perf_counter_ns()
        add(*tensors)
        if call >= 1000:
            times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1000


if __name__ == "__main__":
    import numpy

    print(f"NumPy: {microseconds(lambda: numpy.ones(16, numpy.float32)):.1f} us per call")
    try:
        import torch
    except ImportError:
        pass
    else:
        print(f"PyTorch: {microseconds(lambda: torch.ones(16)):.1f} us per call")
