#pragma once
// Ops with blocks: what can be read off them.
#include "dtc/IR/Module.h"

namespace dtc {

// How many trips a `for` makes, where its bounds say it: numbers, or 0 and a symbol. Nothing where they are values.
[[nodiscard]] std::optional<Dim> tripCount(const Module&, OpId);

} // namespace dtc
