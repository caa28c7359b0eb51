#pragma once
// Boxes of tensors.
#include "dtc/Support/Tensor.h"
#include <functional>
#include <span>
#include <vector>

namespace dtc {

struct TensorBox {
  std::vector<int64_t> offset, shape;
};

// Calls `run` for each contiguous run of a box, in order: its first element in the tensor, that in the box, and the
// number of elements.
void forEachBoxRun(std::span<const int64_t> shape, const TensorBox& box,
                   const std::function<void(int64_t inTensor, int64_t inBox, int64_t count)>& run);
[[nodiscard]] Tensor boxOf(const Tensor& whole, const TensorBox& box);
void placeBox(const Tensor& value, const TensorBox& box, Tensor& whole);

} // namespace dtc
