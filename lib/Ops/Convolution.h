#pragma once
// How convolutions are built and cut (private to lib/Ops).
#include "ShapeParts.h"
#include "dtc/Ops/Convolution.h"
#include <array>

namespace dtc {

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
