#pragma once
// Selects the schedule of each kernel for a GPU: the first, in order of estimated speed, that has enough shared memory
// and does not spill registers. The compiler's report decides, since an estimate may be wrong.
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

struct FittedKernel {
  size_t number = 0; // 0: KernelSource's first; else otherCuda[number - 1]
  CudaSchedule schedule;
  KernelUsage usage; // the compiler's report on it; no name where it has none
};

// One per kernel, in order; those on standby keep their first schedule and are not compiled. Where all
// schedules of a kernel spill, the one that spills least. Errors as Nvrtc::compile.
[[nodiscard]] Result<std::vector<FittedKernel>>
fitKernels(const Nvrtc& nvrtc, std::span<const KernelSource> kernels, std::string_view arch);

} // namespace dtc
