#pragma once
// Part of fuse: layouts of the operands of matrix products.
#include "fuse/OperandLayouts.h"

namespace dtc {

// A library contracts one dim. Where an einsum contracts several, they are one if they are adjacent in memory,
// and in the same order in both operands. An operand for which that does not hold is copied, by a transpose to
// such a layout and one back, which is folded: a copy costs less than a matmul by loops.
void layOutContractions(Module& m, BlockId block, FusionForms& forms, OperandLayouts& out);

} // namespace dtc
