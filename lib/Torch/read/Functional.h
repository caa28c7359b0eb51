#pragma once
// Programs as exported change tensors in place; dtc's values do not change.
#include "read/Storage.h"

namespace dtc {

// Rewrites ops that change an operand, such as aten.add_.Tensor, to return its next value, which later nodes
// read. If the operand is a view, the tensor that it views is rewritten, too, and its other views are taken
// again. Inputs that changed are carried results, and so are weights that share memory with them.
void makeFunctional(ImportFile&, const std::vector<SharedWeight>& shared);

} // namespace dtc
