#pragma once
// Ops whose result is their operands one after the other: concat and stack.
#include "dtc/IR/OpRecord.h"
#include <optional>

namespace dtc {

struct JoinedDim {
  size_t dim = 0;    // of the result, along which the operands follow one another
  bool adds = false; // the dim is a new one, 1 for each operand
};
// Nothing where the op is no such.
[[nodiscard]] std::optional<JoinedDim> joinOf(const OpQuery&);

} // namespace dtc
