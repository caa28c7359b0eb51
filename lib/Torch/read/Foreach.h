#pragma once
// torch._foreach_*: one op for lists of tensors.
#include "dtc/Import/graph/Graph.h"

namespace dtc {

// Each such op as one op per tensor: aten._foreach_add_.List(%xs, %ys) as aten.add_.Tensor(%x, %y), ….
[[nodiscard]] std::vector<ImportNode> withoutLists(ImportFile&, std::vector<ImportNode>);

} // namespace dtc
