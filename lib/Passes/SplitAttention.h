#pragma once
// Part of fuse (private to lib/Passes): an attention of few rows and long keys becomes attentions over parts of the keys and
// their merge, so that all of a GPU has a part of it. How many parts follows from the shapes alone.
#include "dtc/IR/Module.h"

namespace dtc {

void splitAttention(Module& m, BlockId block, Diagnostics& diags);

} // namespace dtc
