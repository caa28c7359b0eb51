#pragma once
// Part of fuse (private to lib/Passes): a grouped_matmul of size becomes products of blocks of rows, each of one group, which a library
// makes. How long a block is depends on the shapes alone; how many there are, and of which groups, is known when the program runs.
#include "dtc/IR/Module.h"

namespace dtc {

[[nodiscard]] bool blockGroups(Module& m, BlockId block, Diagnostics& diags);

} // namespace dtc
