#pragma once
// Part of split: a value that is expensive to compute, and that its readers broadcast (the cosines of rope's
// angles, which all heads share), is computed once: ops that compute the same become one, and leave loops in
// which they do not vary.
#include "dtc/IR/Module.h"

namespace dtc {

void shareTables(Module& m, BlockId block);

} // namespace dtc
