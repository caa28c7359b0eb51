#pragma once
// Values of the module that is being made that are known. Private to lib/Import.
#include "HloContext.h"

namespace dtc {

// The elements of a constant of integers, row by row, also behind reshapes, conversions and concatenations of such; nothing
// where it is none, or has more than 4096.
[[nodiscard]] std::optional<std::vector<int64_t>> constantInts(const HloContext&, ValueId);

} // namespace dtc
