#pragma once
// Part of split: an attention of few queries and many keys becomes attentions over slices of the keys and
// their merge, so that it occupies the entire GPU. The number of slices depends on the shapes alone.
#include "dtc/IR/Module.h"

namespace dtc {

void splitAttention(Module& m, BlockId block, Diagnostics& diags);

} // namespace dtc
