#pragma once
// attention of few queries and long keys, over parts of its keys that are merged: so that all of a GPU has a part of it.
#include "dtc/IR/Builder.h"

namespace dtc {

// `attention` (an op of that name, on one device) as attention_parts and what merges the parts, in their order; one value for each
// of its results. False, and nothing written, where a large GPU is kept busy as it is. How many parts there are follows from the shape
// alone.
[[nodiscard]] bool splitAttentionKeys(Builder&, OpId attention, std::vector<ValueId>& results);

} // namespace dtc
