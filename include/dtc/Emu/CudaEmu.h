#pragma once
// Runs generated CUDA source on the CPU: the text passed to NVRTC, compiled by Clang with
// lib/Kernel/device/emu.h, its threads as fibres. A test device: it may be slow, but not wrong. Blocks run
// one after the other in the order of their numbers (those of a cluster together), so results repeat bit for
// bit, atomics included.
//
// With checks, every access of shared and global memory is checked before it happens, against a shadow of
// that memory that records who wrote and read each element and when (which barriers were in between), and a
// launch with known buffers runs a second time with threads and blocks in the opposite order.
#include "dtc/Emu/EmuMemory.h"
#include "dtc/Jit/CpuJit.h"
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

// The bytes of a buffer that are its own: the first `run` of each `pitch` bytes, `rows` times, repeated every
// `slab` bytes.
struct EmuStrips {
  size_t run = 0; // 0: all bytes are
  size_t pitch = 0, rows = 1, slab = 0;
  // True if all `bytes` from `offset` are its own. (Some are where they extend over several runs.)
  [[nodiscard]] bool holds(size_t offset, size_t bytes) const {
    if (run == 0) return true;
    const size_t inSlab = slab ? offset % slab : offset, row = pitch ? inSlab / pitch : 0;
    return row < rows && inSlab - row * pitch + bytes <= run;
  }
};

// Global memory that a launch may access.
struct EmuBuffer {
  uint32_t argument = 0; // args[argument] points at a pointer to its first byte
  size_t bytes = 0;
  bool read = true; // false: its previous contents count as undefined
  bool written = true;
  bool writtenFully = false; // the launch must write all of it
  EmuStrips strips = {};     // of a buffer that overlaps no other: the launch may access nothing between them
};

struct EmuLaunch {
  Dim3 grid, block;
  uint32_t sharedBytes = 0;                // dynamic shared memory
  void* const* args = nullptr;             // as cuLaunchKernel: args[i] points at the i-th argument's value
  uint32_t numArgs = 0;                    // needed where there are buffers
  std::span<const EmuBuffer> buffers = {}; // none: the launch may access all of `memory`, and runs once
  EmuMemory* memory = nullptr; // the defined bytes; null: all that the buffers contain. Null and no buffers:
                               // only the alignment of global accesses is checked
};

// Compiled kernels, shared between copies.
class EmuModule {
public:
  // Returns when the grid is done. Thread-safe. The cluster's shape is the kernel's __cluster_dims__.
  //
  // Errors (Bug): no such kernel; a grid, block, cluster or shared size that a GPU would refuse; a barrier
  // that not all threads reach, or not at the same location of the text, or with a wrong count; a shuffle or
  // vote whose mask includes a thread that does not arrive, or that reads a lane that does not exist. With
  // checks also: an access outside of the buffers or of a shared variable, or one that is not aligned, a
  // write to a read-only buffer; a read of uninitialized memory; two accesses of the same address by two
  // threads, one a write and not both atomic, that neither a barrier nor fences order (in global memory: by
  // two blocks); shared memory of a block of the cluster that may not have started or may have ended; results
  // that depend on the order of threads, in a kernel without atomic sums of floats and compare-and-swap; an
  // index outside of a thread's own array, an uninitialized value there; a division by zero, a signed
  // overflow, a shift by too much; a loop that does not end; a part of a `writtenFully` buffer that no thread has
  // written; the wrong number of arguments. The message names kernel, block, thread and line. Nothing is
  // written to the buffers then.
  [[nodiscard]] Status launch(std::string_view kernel, const EmuLaunch&) const;
  [[nodiscard]] Status launch(std::string_view kernel, Dim3 grid, Dim3 block, uint32_t sharedBytes,
                              void* const* args) const {
    return launch(kernel, {grid, block, sharedBytes, args, 0, {}, nullptr});
  }

  [[nodiscard]] std::vector<std::string> kernels() const; // in the order of the source
  // The size of the kernel's own shared variables; 0 where its unit has other kernels too.
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

  // Errors as CpuJit::compile. A kernel is `extern "C" __global__ void [__launch_bounds__(…)] NAME(…)`; names
  // are distinct over all units.
  [[nodiscard]] Result<EmuModule> compile(std::span<const SourceUnit> units) const;

private:
  const CpuJit& jit_;
  bool checks_;
};

} // namespace dtc
