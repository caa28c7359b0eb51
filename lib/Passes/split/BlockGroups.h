#pragma once
// Part of split: a large grouped_matmul becomes matmuls over blocks of rows of one group each, which a
// library computes. The block length depends on the shapes alone; the number of blocks and their groups are
// runtime values.
#include "dtc/IR/Module.h"

namespace dtc {

void blockGroups(Module& m, BlockId block, Diagnostics& diags);

} // namespace dtc
