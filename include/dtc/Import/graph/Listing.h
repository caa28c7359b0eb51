#pragma once
// The text that stands for a binary file in messages: one line per input, node and output.
//
//   %add_1 : f32[4, 8] = aten.add.Tensor(%x, %y, alpha=1)  # model.py:12 blocks.0.mlp
#include "dtc/Import/graph/Graph.h"

namespace dtc {

// Writes the listing, and sets the ranges of the inputs, nodes and outputs to their places in it.
[[nodiscard]] std::string writeListing(const Module&, ImportFile&);

} // namespace dtc
