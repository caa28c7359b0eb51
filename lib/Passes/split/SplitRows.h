#pragma once
// Part of split: ops along few long rows run on parts of the rows, whose results are combined, so that they
// use all cores, or the entire GPU (OpRecord::splitRows).
#include "dtc/IR/Module.h"

namespace dtc {

// `gpu`: the target is a GPU.
void splitRows(Module& m, BlockId block, bool gpu, Diagnostics& diags);

} // namespace dtc
