#pragma once
// What a convolution does along each spatial dim.
#include "dtc/IR/OpRecord.h"
#include <optional>
#include <vector>

namespace dtc {

// One spatial dim. Forward, y[p] sums x[stride * p + dilation * k - low] * w[k] over k, 0 outside of x. Transposed, x[q] goes to
// y[stride * q + dilation * k - low], and `extra` makes y longer.
struct ConvWindow {
  int64_t stride = 1, low = 0, high = 0, dilation = 1, extra = 0;
  int64_t size = 0, length = 0, result = 0;                                   // of x, w and y
  [[nodiscard]] int64_t reach() const { return dilation * (length - 1) + 1; } // of a window that has elements
};
struct ConvShape {
  bool transposed = false;
  int64_t groups = 1;
  std::vector<ConvWindow> windows;
};

[[nodiscard]] bool isConvolution(const OpRecord&);
// Of an op that is one; nothing where its sizes do not fit.
[[nodiscard]] std::optional<ConvShape> convolutionOf(const OpQuery&);

} // namespace dtc
