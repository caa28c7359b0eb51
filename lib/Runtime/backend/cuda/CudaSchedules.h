#pragma once
// Selects the schedule of each kernel on a GPU: the best by heuristics that does not spill registers, or with
// autotuning (-O3) the fastest of those, measured on the kernel's own buffers.
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

class CudaSchedules {
public:
  // `nvrtc` and `queue` must outlive it.
  CudaSchedules(const Nvrtc& nvrtc, CudaDeviceQueue& queue, bool measure)
      : nvrtc_(nvrtc), queue_(queue), measure_(measure) {}
  // Compiles and loads candidate schedules. Errors: see fitKernels and CudaDeviceQueue::load.
  [[nodiscard]] Status compile(const std::vector<KernelSource>& kernels);

  struct Chosen {
    const CudaSchedule* schedule = nullptr;
    std::string function; // its name in CudaDeviceQueue
  };
  [[nodiscard]] Chosen of(uint32_t kernel) const;
  // Before a kernel's first use: measures it with these arguments (for cuLaunchKernel; results may still be
  // overwritten), unless the choice is in the kernel cache, and stores it there. Later runs then use the same
  // schedule, on which the last bits of a sum can depend. Errors: see CudaDevice::launch.
  [[nodiscard]] Status choose(int64_t coordinate, uint32_t kernel, std::span<const int64_t> sizes,
                              void** arguments);
  [[nodiscard]] int measured() const { return measured_; } // number of kernels measured in this run

private:
  struct Kernel {
    const KernelSource* source = nullptr;
    std::vector<CudaSchedule> schedules; // the first is the heuristic choice
    size_t chosen = 0;
    bool settled = true;
  };
  static std::string nameOf(const Kernel& k, size_t number) {
    return k.source->name + (number == 0 ? "" : "_" + std::to_string(number));
  }
  [[nodiscard]] Status addOthers(std::vector<SourceUnit>& units, std::vector<int>& shared);
  [[nodiscard]] Result<size_t> fastest(int64_t coordinate, const Kernel& k, std::span<const int64_t> sizes,
                                       void** arguments);

  const Nvrtc& nvrtc_;
  CudaDeviceQueue& queue_;
  bool measure_;
  std::string arch_; // the target of compilation
  std::vector<Kernel> kernels_;
  int measured_ = 0;
};

} // namespace dtc
