#pragma once
// Part of split: a reduction of many elements to few results becomes partial results and their reduction, so
// that it uses all cores, or the entire GPU. The split depends on the shapes and on whether the target is a
// GPU, never on the machine: the result is the same on every CPU.
#include "dtc/IR/Module.h"

namespace dtc {

void splitReductions(Module& m, BlockId block, bool gpu, Diagnostics& diags);

} // namespace dtc
