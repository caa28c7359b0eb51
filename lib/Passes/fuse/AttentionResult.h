#pragma once
// An operand that a library call for the gradient of attention needs, unlike our own kernel.
#include "dtc/IR/Module.h"

namespace dtc {

// A library computes the gradient from y, but attention_grad only has delta: the row sums of y * dy. If a
// region computes that sum from y in memory, perhaps in another layout, the region of attention_grad gets y as
// an additional operand, and in it the same data movement of y, which no op reads. For fused blocks.
void readAttentionResult(Module& m, BlockId block);

} // namespace dtc
