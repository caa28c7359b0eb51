#pragma once
// Ops that join their operands along a dim: concat and stack.
#include "dtc/IR/OpRecord.h"
#include <optional>

namespace dtc {

struct JoinedDim {
  size_t dim = 0;    // of the result, along which the operands are joined
  bool adds = false; // the dim is new, with size 1 for each operand
};
// Empty for other ops.
[[nodiscard]] std::optional<JoinedDim> joinOf(const OpQuery&);

} // namespace dtc
