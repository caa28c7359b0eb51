#pragma once
#include "CudaPlaces.h"
#include "dtc/Jit/Cudnn.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// One convolution of a program on the GPU, as cuDNN takes it: dense tensors, as much padding below as above. What lies otherwise is
// copied, and an image that is padded or cropped otherwise is one of its own.
class CudaConv {
public:
  // Error (Machine): as Cudnn::plan, or sizes of none.
  [[nodiscard]] static Result<CudaConv> plan(const Cudnn& library, CudaPlaces& places, const PlacedConv& conv,
                                             bool deterministic, bool tf32);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // `scratch`: scratchBytes(), 256-byte aligned, of this call alone while it runs: steps of a place may share it.
  [[nodiscard]] Status run(const Cudnn& library, CudaPlaces& places, int64_t place, void* scratch) const;

private:
  // to[i] = from[i + shift], 0 where there is no such element of `from`. Six axes, outermost first.
  struct Axis {
    int64_t extent = 1, to = 0, from = 0, rows = 1, shift = 0; // rows: of `from`
  };
  static constexpr size_t kAxes = 6;
  struct Copy {
    Axis axes[kAxes];
    std::byte *to = nullptr, *from = nullptr; // one of them null: in the scratch, at `offset`
    size_t offset = 0;
    bool after = false; // of what was made
  };
  struct Tensor {
    std::byte* at = nullptr; // null: in the scratch, at `offset`
    size_t offset = 0;
    [[nodiscard]] void* in(void* scratch) const {
      return at ? at : static_cast<std::byte*>(scratch) + offset;
    }
  };
  class Planner;
  [[nodiscard]] Status copy(CudaPlaces& places, int64_t place, const Copy& copy, void* scratch) const;

  std::vector<CudnnPlan> plan_; // one
  Tensor image_, window_, result_;
  const std::byte* bias_ = nullptr;
  std::vector<Copy> copies_;
  std::string copyKernel_;
  size_t scratchBytes_ = 0;
};

} // namespace dtc
