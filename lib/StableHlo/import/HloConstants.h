#pragma once
// Constant folding for values of the module under construction.
#include "import/HloContext.h"

namespace dtc {

// The elements of an integer constant, row-major, also through reshapes, conversions and concatenations;
// nothing where the value is not constant, or has more than 4096 elements.
[[nodiscard]] std::optional<std::vector<int64_t>> constantInts(const HloContext&, ValueId);

} // namespace dtc
