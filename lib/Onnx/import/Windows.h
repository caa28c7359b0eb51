#pragma once
// The window attributes that convolutions and pooling share.
#include "import/OnnxContext.h"

namespace dtc::onnx {

struct WindowAttributes {
  std::vector<int64_t> kernel, strides, dilations, low, high;
  bool ceil = false;
  [[nodiscard]] size_t rank() const { return kernel.size(); }
  [[nodiscard]] int64_t extent(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// `kernel`: of the weights; pooling has `kernel_shape`. auto_pad is resolved by the sizes of x.
[[nodiscard]] WindowAttributes windowOf(OnnxContext&, Expr x, std::vector<int64_t> kernel);
[[nodiscard]] AttrId paddingAttr(Module&, std::span<const int64_t> low, std::span<const int64_t> high);
// Convolution with these windows; `bias` may be absent.
[[nodiscard]] Expr convolved(OnnxContext&, Expr x, Expr w, Expr bias);

} // namespace dtc::onnx
