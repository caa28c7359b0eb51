#include "dtc/Cuda/FitKernels.h"

#include <algorithm>

namespace dtc {
static int spilled(const KernelUsage& usage) { return usage.spillStoreBytes + usage.spillLoadBytes; }

Result<std::vector<FittedKernel>> fitKernels(const Nvrtc& nvrtc, std::span<const KernelSource> kernels,
                                             std::string_view arch) {
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
      if (number == 0 || spilled(usage) < spilled(best.usage))
        best = {number, kernel.cudaSchedule(number), usage};
      if (spilled(best.usage) > 0 && number < kernel.otherCuda.size()) next.push_back(open[u]);
    }
    open = std::move(next);
  }
  return fitted;
}

} // namespace dtc
