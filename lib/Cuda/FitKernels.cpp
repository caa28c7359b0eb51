#include "dtc/Cuda/FitKernels.h"

#include <algorithm>

namespace dtc {
// How badly a schedule fits: the bytes of local memory, which may be a stack without spills in the log; one with more
// shared memory than a block has, which only the compiler knows exactly, cannot run at all.
static int64_t misfit(const KernelUsage& usage, const CudaSchedule& schedule, const Target& target) {
  const bool runs = usage.sharedBytes + schedule.sharedBytes <= target.sharedBytes;
  return std::max(usage.stackBytes, usage.spillStoreBytes + usage.spillLoadBytes) + (runs ? 0 : INT32_MAX);
}

Result<std::vector<FittedKernel>> fitKernels(const Nvrtc& nvrtc, std::span<const KernelSource> kernels,
                                             std::string_view arch) {
  DTC_TRY(auto target, targetNamed(arch));
  std::vector<FittedKernel> fitted(kernels.size());
  std::vector<size_t> open; // kernels whose next schedule is to be tried
  for (size_t i = 0; i < kernels.size(); ++i) {
    fitted[i].schedule = kernels[i].cudaSchedule(0);
    if (!kernels[i].standby) open.push_back(i);
  }
  for (size_t number = 0; !open.empty(); ++number) {
    std::vector<SourceUnit> units;
    for (size_t i : open) units.push_back({kernels[i].name, kernels[i].cudaSchedule(number).cuda});
    DTC_TRY(auto made, nvrtc.compile(units, arch, CudaImage::Cubin));
    std::vector<size_t> next;
    for (size_t u = 0; u < open.size(); ++u) {
      const KernelSource& kernel = kernels[open[u]];
      FittedKernel& best = fitted[open[u]];
      KernelUsage usage;
      if (!made[u].usage.empty()) usage = made[u].usage.front();
      const CudaSchedule schedule = kernel.cudaSchedule(number);
      if (number == 0 || misfit(usage, schedule, target) < misfit(best.usage, best.schedule, target))
        best = {number, schedule, usage};
      if (misfit(best.usage, best.schedule, target) > 0 && number < kernel.otherCuda.size())
        next.push_back(open[u]);
    }
    open = std::move(next);
  }
  return fitted;
}

} // namespace dtc
