"""How fast this machine's GPU copies: the driver's own copy, called without any library but the driver's."""

import ctypes
import statistics


def call(function, *arguments):
    code = function(*arguments)
    if code:
        raise RuntimeError(f"{function.__name__} failed with {code}")


def gb_per_s(mebibytes=2048, repeat=15):
    """GB/s of a device-to-device copy, bytes read plus bytes written; the median of some."""
    cuda = ctypes.CDLL("libcuda.so.1")
    pointer, handle = ctypes.c_uint64, ctypes.c_void_p
    size = ctypes.c_size_t(mebibytes << 20)
    context, stream, events, memory = handle(), handle(), [handle(), handle()], [pointer(), pointer()]
    call(cuda.cuInit, 0)
    call(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(context), 0)
    call(cuda.cuCtxSetCurrent, context)
    call(cuda.cuStreamCreate, ctypes.byref(stream), 1)
    for event in events:
        call(cuda.cuEventCreate, ctypes.byref(event), 0)
    for block in memory:
        call(cuda.cuMemAlloc_v2, ctypes.byref(block), size)
        call(cuda.cuMemsetD32Async, block, ctypes.c_uint(0x3f8ccccd), ctypes.c_size_t(size.value // 4), stream)
    times = []
    for i in range(repeat + 3):
        call(cuda.cuEventRecord, events[0], stream)
        call(cuda.cuMemcpyDtoDAsync_v2, memory[i % 2], memory[1 - i % 2], size, stream)
        call(cuda.cuEventRecord, events[1], stream)
        call(cuda.cuStreamSynchronize, stream)
        ms = ctypes.c_float()
        call(cuda.cuEventElapsedTime, ctypes.byref(ms), *events)
        times.append(ms.value)
    for block in memory:
        call(cuda.cuMemFree_v2, block)
    call(cuda.cuDevicePrimaryCtxRelease_v2, 0)
    return 2 * size.value / statistics.median(times[3:]) / 1e6


if __name__ == "__main__":
    print(f"{gb_per_s():.0f} GB/s")
