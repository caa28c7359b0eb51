#pragma once
// Part of fuse (private to lib/Passes): a reduction of many elements to few results becomes partial results and their
// reduction, so that all cores, or all of a GPU, have a part of it. How it is cut depends on the shapes and on whether
// the regions are for a GPU, never on the machine: the result is the same on every CPU.
#include "dtc/IR/Module.h"

namespace dtc {

void splitReductions(Module& m, BlockId block, bool gpu, Diagnostics& diags);

} // namespace dtc
