#pragma once
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// A convolution executed by cuDNN, which needs contiguous tensors and symmetric padding. Other layouts are
// copied; an image with other padding or cropping is materialized.
class CudaConv {
public:
  // Error (Machine): see Cudnn::plan; also empty tensors.
  [[nodiscard]] static Result<CudaConv> plan(const Cudnn& library, CudaDeviceQueue& queue,
                                             const PlacedConv& conv, bool deterministic, bool tf32);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // `scratch`: scratchBytes(), 256-byte aligned, exclusive while the call runs; steps of a device may share
  // it.
  [[nodiscard]] Status run(const Cudnn& library, CudaDeviceQueue& queue, int64_t coordinate,
                           void* scratch) const;

private:
  // to[i] = from[i + shift], or 0 if out of range. Six axes, outermost first.
  struct Axis {
    int64_t extent = 1, to = 0, from = 0, rows = 1, shift = 0; // rows: extent of `from`
  };
  static constexpr size_t kAxes = 6;
  struct Copy {
    Axis axes[kAxes];
    std::byte *to = nullptr, *from = nullptr; // the null one is in the scratch, at `offset`
    size_t offset = 0;
    bool after = false; // copies the result, after the convolution
  };
  struct Tensor {
    std::byte* at = nullptr; // null if in the scratch, at `offset`
    size_t offset = 0;
    [[nodiscard]] void* in(void* scratch) const {
      return at ? at : static_cast<std::byte*>(scratch) + offset;
    }
  };
  class Planner;
  [[nodiscard]] Status copy(CudaDeviceQueue& queue, int64_t coordinate, const Copy& copy,
                            void* scratch) const;

  std::vector<CudnnPlan> plan_; // exactly one
  Tensor image_, window_, result_;
  const std::byte* bias_ = nullptr;
  std::vector<Copy> copies_;
  std::string copyKernel_;
  size_t scratchBytes_ = 0;
};

} // namespace dtc
