#pragma once
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// A convolution executed by cuDNN, with channels first or last in memory. Tensors in another layout are copied.
// What cuDNN refuses is tried again in simpler terms: the bias is added by a kernel, an image with uneven
// padding is materialized, strided tensors are made dense.
class CudaConv {
public:
  // Error (Machine): see Cudnn::plan; also empty tensors.
  [[nodiscard]] static Result<CudaConv> plan(const Cudnn& library, CudaDeviceQueue& queue,
                                             const PlacedConv& conv, bool deterministic, bool tf32);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // Kernels in addition to cuDNN's: copies, and the bias.
  [[nodiscard]] size_t numKernels() const { return copies_.size(); }
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
    std::byte *to = nullptr, *from = nullptr; // a null one is in the scratch, at `offset`
    size_t offset = 0;
    bool after = false; // runs after the convolution
    bool adds = false;  // to[i] += from[i]: the bias
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
  std::array<Tensor, CudnnConv::kTensors> tensors_;
  std::vector<Copy> copies_;
  DType dtype_ = DType::F32;
  size_t scratchBytes_ = 0;
};

// The kernels that convolutions of a dtype may need besides cuDNN.
[[nodiscard]] std::vector<SourceUnit> convKernels(DType dtype);

} // namespace dtc
