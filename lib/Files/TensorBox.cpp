#include "dtc/Files/TensorBox.h"

#include "dtc/Support/ElementCount.h"

#include <cstring>

namespace dtc {

void forEachBoxRun(std::span<const int64_t> shape, const TensorBox& box,
                   const std::function<void(int64_t inTensor, int64_t inBox, int64_t count)>& run) {
  const int64_t count = *elementCount(box.shape);
  if (count == 0) return;
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1), index(rank, 0);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  size_t outer = rank; // dims below it are one run
  int64_t length = 1;
  while (outer > 0) {
    length *= box.shape[--outer];
    if (box.shape[outer] != shape[outer]) break;
  }
  for (int64_t inBox = 0; inBox < count; inBox += length) {
    int64_t inTensor = 0;
    for (size_t d = 0; d < rank; ++d) inTensor += (box.offset[d] + index[d]) * strides[d];
    run(inTensor, inBox, length);
    for (size_t d = outer; d-- > 0;) {
      if (++index[d] < box.shape[d]) break;
      index[d] = 0;
    }
  }
}

Tensor boxOf(const Tensor& whole, const TensorBox& box) {
  Tensor out(whole.dtype(), box.shape);
  const int64_t width = dtypeBytes(whole.dtype());
  forEachBoxRun(whole.shape(), box, [&](int64_t from, int64_t to, int64_t n) {
    std::memcpy(out.bytes().data() + to * width, whole.bytes().data() + from * width,
                static_cast<size_t>(n * width));
  });
  return out;
}

void placeBox(const Tensor& value, const TensorBox& box, Tensor& whole) {
  const int64_t width = dtypeBytes(whole.dtype());
  forEachBoxRun(whole.shape(), box, [&](int64_t to, int64_t from, int64_t n) {
    std::memcpy(whole.bytes().data() + to * width, value.bytes().data() + from * width,
                static_cast<size_t>(n * width));
  });
}

} // namespace dtc
