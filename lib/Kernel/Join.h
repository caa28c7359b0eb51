#pragma once
// Concatenation as one kernel that copies each operand's bytes once (private to lib/Kernel).
#include "Lower.h"

namespace dtc {

// A region that is one concat or stack of values in memory, read as they lie; nothing where it computes, where sizes along the
// dim are not known, or where a few short rows are better interleaved by loops.
[[nodiscard]] std::optional<Lowered> matchJoin(Module& m, OpId fused);

} // namespace dtc
