#pragma once
#include "CudaPlaces.h"
#include "dtc/Jit/Cudnn.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// One attention, or gradient of one, of a program on the GPU, as cuDNN takes it.
class CudaAttention {
public:
  // Error (Machine): as Cudnn::plan, sizes of none, or a layout that it does not take.
  [[nodiscard]] static Result<CudaAttention> plan(const Cudnn& library, const PlacedAttention& attention,
                                                  bool deterministic);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // `scratch`: scratchBytes(), 256-byte aligned, of this call alone while it runs: steps of a place may share it.
  [[nodiscard]] Status run(const Cudnn& library, CudaPlaces& places, int64_t place, void* scratch) const;

private:
  std::vector<CudnnAttentionPlan> plan_; // one
  std::array<void*, CudnnAttention::kTensors> tensors_ = {};
  size_t delta_ = 0, wideDq_ = 0; // of a gradient: where they begin in the scratch, behind the workspace
  size_t scratchBytes_ = 0;
};

} // namespace dtc
