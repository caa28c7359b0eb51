#pragma once
// Runs generated CUDA source on the CPU: the text that NVRTC gets, compiled by Clang under lib/Jit/Device/emu.h, its
// threads as fibres. A test device: slow is fine, wrong is not. Blocks run one after the other in the order of their
// numbers (those of a cluster together), so results repeat bit for bit, atomics included.
//
// With checks every access of shared and global memory is looked at before it happens, against a shadow of that memory that
// holds who wrote and who read each element and when (which barriers stood between), and a launch whose buffers are known
// runs a second time with threads and blocks in the opposite order.
#include "dtc/Jit/CpuJit.h"
#include "dtc/Jit/EmuMemory.h"
#include "dtc/Jit/Source.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace dtc {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Which bytes of a buffer are its own: the first `run` of each `pitch` bytes, `rows` times, and that every `slab` bytes.
struct EmuStrips {
  size_t run = 0; // 0: all bytes are
  size_t pitch = 0, rows = 1, slab = 0;
  // Are all `bytes` from `offset` on its own? (Some are where they lie in several runs.)
  [[nodiscard]] bool holds(size_t offset, size_t bytes) const {
    if (run == 0) return true;
    const size_t inSlab = slab ? offset % slab : offset, row = pitch ? inSlab / pitch : 0;
    return row < rows && inSlab - row * pitch + bytes <= run;
  }
};

// Global memory that a launch may touch.
struct EmuBuffer {
  uint32_t argument = 0; // args[argument] points at a pointer to its first byte
  size_t bytes = 0;
  bool read = true; // false: what is there before the launch counts as undefined
  bool written = true;
  bool whole = false;    // the launch is to write all of it
  EmuStrips strips = {}; // of a buffer that overlaps no other: the launch may touch nothing between them
};

struct EmuLaunch {
  Dim3 grid, block;
  uint32_t sharedBytes = 0;                // dynamic shared memory
  void* const* args = nullptr;             // as cuLaunchKernel: args[i] points at the i-th argument's value
  uint32_t numArgs = 0;                    // needed where there are buffers
  std::span<const EmuBuffer> buffers = {}; // none: the launch may touch all of `memory`, and runs once
  EmuMemory* memory =
      nullptr; // which bytes are defined; null: all that the buffers hold. Null and no buffers:
               // accesses of global memory are checked for their alignment alone
};

// Compiled kernels. Copies share them.
class EmuModule {
public:
  // Returns when the grid is done. Safe from several threads. The cluster's shape is the kernel's __cluster_dims__.
  // Errors (Bug): no such kernel; a grid, block, cluster or shared size that a GPU would refuse; a barrier that not all
  // threads reach, or not at the same place of the text, or with a wrong count; a shuffle or vote whose mask names a thread that does not
  // come, or that reads a lane that is not there. With checks also: an access outside of the buffers or of a shared variable,
  // one that is not aligned, a write to a buffer that is only read; a read of what nothing has written; two accesses of the
  // same place by two threads, one a write and not both atomic, that neither a barrier nor fences order (in global memory:
  // by two blocks); shared memory of a block of the cluster that may not have begun or may have ended; results that depend on the
  // order of threads, of a kernel without atomic sums of floats and compare-and-swap; an index outside of a thread's own array,
  // a value there that it has not set; a division by zero, a signed overflow, a shift by too much; a loop that does not end; a
  // part of a `whole` buffer that no thread has written; another number of arguments than the kernel has. The message names
  // kernel, block, thread and line. Nothing is written to the buffers then.
  [[nodiscard]] Status launch(std::string_view kernel, const EmuLaunch&) const;
  [[nodiscard]] Status launch(std::string_view kernel, Dim3 grid, Dim3 block, uint32_t sharedBytes,
                              void* const* args) const {
    return launch(kernel, {grid, block, sharedBytes, args, 0, {}, nullptr});
  }

  [[nodiscard]] bool has(std::string_view kernel) const;
  [[nodiscard]] std::vector<std::string> kernels() const; // in the order of the source
  // Of the kernel's own shared variables; 0 where its unit has other kernels too.
  [[nodiscard]] size_t sharedBytes(std::string_view kernel) const;
  struct Impl;
  explicit EmuModule(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl_;
};

class CudaEmu {
public:
  // `jit` outlives this. Without checks a kernel runs several times faster.
  explicit CudaEmu(const CpuJit& jit, bool checks = true) : jit_(jit), checks_(checks) {}

  // Errors as CpuJit::compile. A kernel is `extern "C" __global__ void [__launch_bounds__(…)] NAME(…)`; names are
  // distinct over all units.
  [[nodiscard]] Result<EmuModule> compile(std::span<const SourceUnit> units) const;

private:
  const CpuJit& jit_;
  bool checks_;
};

} // namespace dtc
