#pragma once
// Queries on ops with regions.
#include "dtc/IR/Module.h"

namespace dtc {

// The number of iterations of a `for`, if its bounds determine it: constants, or 0 and a symbol. Empty if
// they are values.
[[nodiscard]] std::optional<Dim> iterationCount(const Module&, OpId);

} // namespace dtc
