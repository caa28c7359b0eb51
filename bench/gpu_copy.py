"""How fast this machine's GPU copies: the driver's own copy, called without any library but the driver's.

A kernel of some microseconds on an idle GPU cannot be timed by two events around it: the first is stamped when it arrives, and the kernel arrives
some microseconds later. So each copy follows a memset of 128 MiB, which takes longer than enqueueing the copy does, and also replaces what L2 holds."""

import ctypes
import statistics

FLUSH = 128 << 20


def call(function, *arguments):
    code = function(*arguments)
    if code:
        raise RuntimeError(f"{function.__name__} failed with {code}")


class Copy:
    """Copies on the first GPU; `with Copy() as copy: copy.gb_per_s(1 << 30)`. Errors: OSError (no driver), RuntimeError."""

    def __enter__(self):
        self.cuda, self.made = ctypes.CDLL("libcuda.so.1"), {}
        self.context, self.stream, self.events = ctypes.c_void_p(), ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]
        self.memory, self.held = [], 0
        call(self.cuda.cuInit, 0)
        call(self.cuda.cuDevicePrimaryCtxRetain, ctypes.byref(self.context), 0)
        call(self.cuda.cuCtxSetCurrent, self.context)
        call(self.cuda.cuStreamCreate, ctypes.byref(self.stream), 1)
        for event in self.events:
            call(self.cuda.cuEventCreate, ctypes.byref(event), 0)
        return self

    def __exit__(self, *_):
        self.free()
        call(self.cuda.cuDevicePrimaryCtxRelease_v2, 0)

    def free(self):
        """Gives the memory back: programs that are measured need it."""
        for block in self.memory:
            call(self.cuda.cuMemFree_v2, block)
        self.memory, self.held = [], 0

    def reserve(self, size):
        if size > self.held:
            self.free()
            for bytes_ in (size, size, FLUSH):
                block = ctypes.c_uint64()
                call(self.cuda.cuMemAlloc_v2, ctypes.byref(block), ctypes.c_size_t(bytes_))
                self.memory.append(block)
            self.held = size
            for block in self.memory[:2]:  # memory that was never written may be read faster
                call(self.cuda.cuMemsetD32Async, block, ctypes.c_uint(0x3f8ccccd), ctypes.c_size_t(size // 4), self.stream)

    def gb_per_s(self, moved, repeat=9):
        """GB/s of a copy that reads and writes `moved` bytes together; the median of `repeat`. Measured once per size."""
        size = max(4096, moved // 2 // 4096 * 4096)
        if size not in self.made:
            self.reserve(size)
            times = [self.once(size, number) for number in range(repeat + 3)]
            self.made[size] = 2 * size / statistics.median(times[3:]) / 1e6
            self.free()
        return self.made[size]

    def once(self, size, number):
        """Milliseconds of one copy."""
        call(self.cuda.cuMemsetD32Async, self.memory[2], ctypes.c_uint(number), ctypes.c_size_t(FLUSH // 4), self.stream)
        call(self.cuda.cuEventRecord, self.events[0], self.stream)
        call(self.cuda.cuMemcpyDtoDAsync_v2, self.memory[number % 2], self.memory[1 - number % 2], ctypes.c_size_t(size), self.stream)
        call(self.cuda.cuEventRecord, self.events[1], self.stream)
        call(self.cuda.cuStreamSynchronize, self.stream)
        elapsed = ctypes.c_float()
        call(self.cuda.cuEventElapsedTime, ctypes.byref(elapsed), *self.events)
        return elapsed.value


if __name__ == "__main__":
    with Copy() as copy:
        for mebibytes in (64, 256, 1024, 4096):
            print(f"{mebibytes} MiB: {copy.gb_per_s(mebibytes << 20):.0f} GB/s")
