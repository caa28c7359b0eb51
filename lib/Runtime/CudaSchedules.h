#pragma once
// Which schedule each kernel of a program runs under on a GPU: the likely best that keeps its numbers in registers, or, where time
// is taken for it (-O3), the fastest of all those, measured on the buffers that the kernel will run on.
#include "CudaPlaces.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

class CudaSchedules {
public:
  // `nvrtc` and `places` outlive it.
  CudaSchedules(const Nvrtc& nvrtc, CudaPlaces& places, bool measure)
      : nvrtc_(nvrtc), places_(places), measure_(measure) {}
  // Compiles and loads what may run. Errors as fitKernels and CudaPlaces::load.
  [[nodiscard]] Status compile(const std::vector<KernelSource>& kernels);

  struct Chosen {
    const CudaSchedule* schedule = nullptr;
    std::string function; // by which CudaPlaces knows it
  };
  [[nodiscard]] Chosen of(uint32_t kernel) const;
  // Before a kernel's first use: measures it with these arguments (as cuLaunchKernel takes them: what it writes is of no
  // matter yet) unless an earlier run has, and keeps the answer where compiled kernels are kept. So later runs are alike, as
  // a sum's last bits can depend on the schedule. Errors as CudaDevice::launch.
  [[nodiscard]] Status choose(int64_t place, uint32_t kernel, std::span<const int64_t> sizes,
                              void** arguments);
  [[nodiscard]] int measured() const { return measured_; } // kernels, of this run

private:
  struct Kernel {
    const KernelSource* source = nullptr;
    std::vector<CudaSchedule> schedules; // the first is that of the compiler's word
    size_t chosen = 0;
    bool settled = true;
  };
  static std::string nameOf(const Kernel& k, size_t number) {
    return k.source->name + (number == 0 ? "" : "_" + std::to_string(number));
  }
  [[nodiscard]] Status addOthers(std::vector<SourceUnit>& units, std::vector<int>& shared);
  [[nodiscard]] Result<size_t> fastest(int64_t place, const Kernel& k, std::span<const int64_t> sizes,
                                       void** arguments);

  const Nvrtc& nvrtc_;
  CudaPlaces& places_;
  bool measure_;
  std::string arch_; // what kernels are compiled for
  std::vector<Kernel> kernels_;
  int measured_ = 0;
};

} // namespace dtc
