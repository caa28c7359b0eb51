#pragma once
// Concatenation as one kernel that copies each operand's bytes once.
#include "lower/Lower.h"

namespace dtc {

// A region of one concat or stack of values in memory, read in their layout; nothing where it computes, where
// sizes along the dim are unknown, or where a few short rows are better interleaved by loops.
[[nodiscard]] std::optional<Lowered> matchJoin(Module& m, OpId fused);

} // namespace dtc
