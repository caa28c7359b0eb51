#pragma once
// What a convolution does along each spatial dim, and how one is built.
#include "ShapeParts.h"
#include <array>

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
[[nodiscard]] bool convShapeOf(const OpQuery&, ConvShape&);

struct ConvAttrs {
  std::vector<int64_t> stride, dilation, extra;
  std::vector<std::array<int64_t, 2>> padding;
};
// conv(x, w[, bias]).
[[nodiscard]] ValueId buildConv(Builder&, std::span<const ValueId> operands, const ConvAttrs&, int64_t groups,
                                bool transposed);
// The groups of the local op, whose channels may be cut.
[[nodiscard]] int64_t localGroups(const OpQuery&, std::span<const TypeId> operands,
                                  std::span<const TypeId> results);

bool cutConv(CutOp& op, std::vector<ValueId>& results); // OpRecord::cut

} // namespace dtc
