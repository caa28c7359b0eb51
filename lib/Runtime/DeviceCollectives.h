#pragma once
// Collectives between logical devices of one GPU (or of its emulator), or of several GPUs: generated CUDA kernels that read all
// members' operands and write their results, and plain copies. What a GPU's kernels cannot reach is copied to it first.
#include "BlockKernel.h"
#include "dtc/Jit/Source.h"
#include "dtc/Runtime/Communicator.h"

#include <set>

namespace dtc {

// Memory that a kernel reads, or writes whole: `length` bytes, `rows` times every `row` bytes, and that `slabs` times every
// `slab` bytes.
struct DeviceBuffer {
  const std::byte* at = nullptr;
  bool written = false;
  int64_t length = 0, rows = 1, row = 0, slabs = 1, slab = 0;
  [[nodiscard]] int64_t span() const { return (slabs - 1) * slab + (rows - 1) * row + length; }
};

// What runs the kernels.
class DeviceQueue {
public:
  virtual ~DeviceQueue() = default;
  [[nodiscard]] virtual Status compile(const SourceUnit& unit) = 0;
  // In the order of the device's own work. `elements`: one thread each. `buffers`: what the first arguments point to.
  [[nodiscard]] virtual Status launch(int64_t place, const std::string& kernel, int64_t elements,
                                      std::span<void*> arguments,
                                      std::span<const DeviceBuffer> buffers = {}) = 0;
  [[nodiscard]] virtual Status copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // In the order of `place`'s work, from the memory of one device to that of another.
  [[nodiscard]] virtual Status copyBetween(int64_t place, std::byte* to, int64_t /*toPlace*/,
                                           const std::byte* from, int64_t /*fromPlace*/, int64_t bytes) {
    return copy(place, to, from, bytes);
  }
  // Can kernels of `place` read and write the memory of `other`?
  [[nodiscard]] virtual bool reaches(int64_t /*place*/, int64_t /*other*/) const { return true; }
  // Memory of a place's own for what it cannot reach: at least so many bytes, reserved before work is started that uses it.
  [[nodiscard]] virtual Status reserve(int64_t, int64_t) { return Ok{}; }
  [[nodiscard]] virtual std::byte* reserved(int64_t) { return nullptr; }
  [[nodiscard]] virtual Status clear(int64_t place, std::byte* to, int64_t bytes) = 0;
  // What `place` starts from here on runs after everything that `others` have started, and have waited for, so far.
  [[nodiscard]] virtual Status waitFor(int64_t place, std::span<const int64_t> others) = 0;
  // What each of `places` starts from here on runs after all that they have started, and have waited for, so far.
  [[nodiscard]] virtual Status meet(std::span<const int64_t> places) {
    for (int64_t p : places)
      if (Status s = waitFor(p, places); !s) return s;
    return Ok{};
  }
};

// `queue` outlives it. Groups have at most 128 members.
[[nodiscard]] std::unique_ptr<Communicator> makeDeviceCommunicator(DeviceQueue& queue);

// Moves elements of 1, 2, 4 or 8 bytes as they are.
[[nodiscard]] BlockKernel moveBlocks(int64_t bytes);

// A copy of n elements, by rows and slabs. The same copy of one operand, from row `*index` of a stack of `count` (zeros where there is
// no such row), and the copy of n elements to row `*index - first`. The index is an i32, or an i64 where `wide`.
[[nodiscard]] SourceUnit copyKernel(DType bits);
[[nodiscard]] SourceUnit lookupKernel(DType bits);
[[nodiscard]] SourceUnit stackKernel(DType bits);
// An unsigned integer of so many bytes: what is only moved is moved as bits.
[[nodiscard]] DType bitsOf(int64_t bytes);

} // namespace dtc
