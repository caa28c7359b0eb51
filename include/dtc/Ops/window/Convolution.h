#pragma once
// The geometry of a convolution along each spatial dim.
#include "dtc/IR/OpRecord.h"
#include <optional>
#include <vector>

namespace dtc {

// One spatial dim. Forward, y[p] sums x[stride * p + dilation * k - low] * w[k] over k, where x is 0 out of
// bounds. Transposed, x[q] is added to y[stride * q + dilation * k - low], and `extra` makes y longer.
struct ConvWindow {
  int64_t stride = 1, low = 0, high = 0, dilation = 1, extra = 0;
  int64_t size = 0, length = 0, result = 0;                                   // of x, w and y
  [[nodiscard]] int64_t reach() const { return dilation * (length - 1) + 1; } // extent of a nonempty window
};
struct ConvShape {
  bool transposed = false;
  int64_t groups = 1;
  std::vector<ConvWindow> windows;
};

[[nodiscard]] bool isConvolution(const OpRecord&);
// For a convolution; empty if its sizes do not match.
[[nodiscard]] std::optional<ConvShape> convolutionOf(const OpQuery&);
// Every convolution is also the window gradient of another one, whose images are its channels and whose result
// is its window: as autodiff writes it, or where the window slides to fewer positions than it has elements.
// Libraries are fast for small windows. Dim d of the window is dim order[d] in memory.
[[nodiscard]] bool isWindowGradient(const ConvShape&, std::span<const int64_t> order);

} // namespace dtc
