#pragma once
// Regions of a program in which a mode is set: torch.no_grad, torch.autocast.
#include "dtc/Import/graph/Graph.h"

namespace dtc {

// The nodes with the graphs of such regions in place of the ops that run them. What a region changes in place
// is then changed in the graph around it, and its results are views of its operands where they were before.
[[nodiscard]] std::vector<ImportNode> withoutRegions(ImportFile&, std::vector<ImportNode>);

} // namespace dtc
