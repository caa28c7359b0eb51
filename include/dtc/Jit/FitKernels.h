#pragma once
// Which schedule of each kernel a GPU gets: the first, in the order in which they are thought to be fast, that keeps its numbers
// in registers. What the compiler says of one decides, since an estimate may be wrong.
#include "dtc/Jit/Nvrtc.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

struct FittedKernel {
  size_t number = 0; // 0: KernelSource's first; else otherCuda[number - 1]
  CudaSchedule schedule;
  KernelUsage usage; // what the compiler says of it; no name where it says nothing
};

// One for each kernel, in order; those on standby keep their first and are not compiled. Where all schedules of a kernel spill, the
// one that spills least. Errors as Nvrtc::compile.
[[nodiscard]] Result<std::vector<FittedKernel>>
fitKernels(const Nvrtc& nvrtc, std::span<const KernelSource> kernels, std::string_view arch);

} // namespace dtc
