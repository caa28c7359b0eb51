#pragma once
#include "dtc/Support/Checked.h"
#include <algorithm>

namespace dtc {

// The number of elements of a tensor: 0 if a size is 0, however large the others are; empty if it exceeds
// 2^63-1.
[[nodiscard]] inline std::optional<int64_t> elementCount(std::span<const int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  return checkedProduct(shape);
}

} // namespace dtc
