#pragma once
// What a library reads for the gradient of attention, and a kernel of ours does not (private to lib/Passes).
#include "dtc/IR/Module.h"

namespace dtc {

// A library makes the gradient from y, of which attention_grad has only delta: the sum of y dy of each row. Where a region makes
// that sum of y in memory, and nothing is taken from it, the region of attention_grad is given y as one more operand, which nothing in it reads. For fused blocks.
void readAttentionResult(Module& m, BlockId block);

} // namespace dtc
