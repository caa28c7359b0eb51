#pragma once
// Collectives between logical devices on one GPU (or its emulator) or several GPUs: generated CUDA kernels
// that read operands of all members and write their results, and plain copies. Unreachable memory is staged
// by copies.
#include "backend/BlockKernel.h"
#include "dtc/Jit/Source.h"
#include "dtc/Runtime/comm/Communicator.h"

namespace dtc {

// Memory that a kernel reads or completely writes: `length` bytes, `rows` times with stride `row`, and that
// `slabs` times with stride `slab`, in bytes.
struct DeviceBuffer {
  const std::byte* at = nullptr;
  bool written = false;
  int64_t length = 0, rows = 1, row = 0, slabs = 1, slab = 0;
  [[nodiscard]] int64_t span() const { return (slabs - 1) * slab + (rows - 1) * row + length; }
};

// Executes the kernels.
class DeviceQueue {
public:
  virtual ~DeviceQueue() = default;
  [[nodiscard]] virtual Status compile(const SourceUnit& unit) = 0;
  // In stream order of the device. `elements`: one thread each. `buffers`: the memory behind the pointer
  // arguments.
  [[nodiscard]] virtual Status launch(int64_t coordinate, const std::string& kernel, int64_t elements,
                                      std::span<void*> arguments,
                                      std::span<const DeviceBuffer> buffers = {}) = 0;
  [[nodiscard]] virtual Status copy(int64_t coordinate, std::byte* to, const std::byte* from,
                                    int64_t bytes) = 0;
  // In stream order of `coordinate`, from one device's memory to another's.
  [[nodiscard]] virtual Status copyBetween(int64_t coordinate, std::byte* to, int64_t /*toCoordinate*/,
                                           const std::byte* from, int64_t /*fromCoordinate*/, int64_t bytes) {
    return copy(coordinate, to, from, bytes);
  }
  // Whether kernels of `coordinate` can access the memory of `other`.
  [[nodiscard]] virtual bool reaches(int64_t /*coordinate*/, int64_t /*other*/) const { return true; }
  // Staging memory of a device of at least this size, reserved before work that uses it is enqueued.
  [[nodiscard]] virtual Status reserve(int64_t, int64_t) { return Ok{}; }
  [[nodiscard]] virtual std::byte* reserved(int64_t) { return nullptr; }
  [[nodiscard]] virtual Status clear(int64_t coordinate, std::byte* to, int64_t bytes) = 0;
  // Later work of `coordinate` waits for all work that `others` have enqueued or waited for so far.
  [[nodiscard]] virtual Status waitFor(int64_t coordinate, std::span<const int64_t> others) = 0;
  // Later work of each of `coordinates` waits for all work that any of them has enqueued or waited for so far.
  [[nodiscard]] virtual Status rendezvous(std::span<const int64_t> coordinates) {
    for (int64_t p : coordinates)
      if (Status s = waitFor(p, coordinates); !s) return s;
    return Ok{};
  }
};

// `queue` outlives it. Groups have at most 128 members.
[[nodiscard]] std::unique_ptr<Communicator> makeDeviceCommunicator(DeviceQueue& queue);

// Copies elements of 1, 2, 4 or 8 bytes bitwise.
[[nodiscard]] BlockKernel moveBlocks(int64_t bytes);

// Kernels: a strided copy of n elements; the same from row `*index` of a stack of `count` rows (zeros if out
// of range); and a copy of n elements to row `*index - first`. The index is an i32, or an i64 if `wide`.
[[nodiscard]] SourceUnit copyKernel(DType bits);
[[nodiscard]] SourceUnit lookupKernel(DType bits);
[[nodiscard]] SourceUnit stackKernel(DType bits);
// The unsigned integer of this size, for bitwise copies.
[[nodiscard]] DType bitsOf(int64_t bytes);

} // namespace dtc
