#pragma once
// Part of fuse (private to lib/Passes): scans, argmax, argmin, topk and norms (SplitNorms.h) along few long rows are done on parts of the rows, and what
// the parts give is put together, so that all cores, or all of a GPU, have a part of it. How they are cut depends on the shapes
// alone, as in SplitReductions.h.
#include "dtc/IR/Module.h"

namespace dtc {

// `blocks`: for a GPU, where orders of several long rows are found together, too; a CPU's cores take a row each.
void splitRows(Module& m, BlockId block, bool blocks, Diagnostics& diags);

} // namespace dtc
