#pragma once
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// An attention, forward or gradient, executed by cuDNN.
class CudaAttention {
public:
  // Error (Machine): see Cudnn::plan; also empty tensors and unsupported layouts.
  [[nodiscard]] static Result<CudaAttention> plan(const Cudnn& library, const PlacedAttention& attention,
                                                  bool deterministic);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // `scratch`: scratchBytes(), 256-byte aligned, exclusive while the call runs; steps of a device may share
  // it.
  [[nodiscard]] Status run(const Cudnn& library, CudaDeviceQueue& queue, int64_t coordinate,
                           void* scratch) const;

private:
  std::vector<CudnnPlan> plan_; // exactly one
  std::array<void*, CudnnAttention::kTensors> tensors_ = {};
  size_t delta_ = 0, wideDq_ = 0; // for a gradient: offsets in the scratch, after the workspace
  size_t scratchBytes_ = 0;
};

} // namespace dtc
