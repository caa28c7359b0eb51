#pragma once
// Part of split: a long loop over a few numbers runs many iterations per kernel. Its kernels would otherwise take
// less time than their start.
#include "dtc/IR/Module.h"

namespace dtc {

void unrollSmall(Module& m, BlockId block, Diagnostics& diags);

} // namespace dtc
