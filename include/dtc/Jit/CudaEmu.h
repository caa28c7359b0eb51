#pragma once
// Runs generated CUDA source on the CPU: the text that NVRTC gets, compiled by Clang under lib/Jit/Device/emu.h, its
// threads as fibres. A test device: slow is fine, wrong is not. Blocks run one after the other in the order of their
// numbers, so results repeat bit for bit, atomics included.
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

// Compiled kernels. Copies share them.
class EmuModule {
public:
  // As cuLaunchKernel: `args[i]` points at the i-th argument's value, `sharedBytes` is the dynamic shared memory.
  // Returns when the grid is done. Safe from several threads.
  // Errors (Bug): no such kernel; a grid, block or shared size that a GPU would refuse; a barrier that not all threads of
  // the block reach, or not at the same line; a shuffle or vote whose mask names a thread that does not come. The message
  // names kernel, block and thread, and what each side was waiting for.
  [[nodiscard]] Status launch(std::string_view kernel, Dim3 grid, Dim3 block, uint32_t sharedBytes,
                              void* const* args) const;

  [[nodiscard]] bool has(std::string_view kernel) const;
  [[nodiscard]] std::vector<std::string> kernels() const; // in the order of the source
  struct Impl;
  explicit EmuModule(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl_;
};

class CudaEmu {
public:
  explicit CudaEmu(const CpuJit& jit) : jit_(jit) {} // `jit` outlives this

  // Errors as CpuJit::compile. A kernel is `extern "C" __global__ void [__launch_bounds__(…)] NAME(…)`; names are
  // distinct over all units.
  [[nodiscard]] Result<EmuModule> compile(std::span<const SourceUnit> units) const;

private:
  const CpuJit& jit_;
};

} // namespace dtc
