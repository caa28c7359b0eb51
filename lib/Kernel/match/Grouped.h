#pragma once
// Regions that are a grouped matrix product, computed tile by tile.
#include "lower/Lower.h"

namespace dtc {

// A region of one grouped_matmul of floats, with as many groups as the device header supports.
[[nodiscard]] std::optional<loops::GroupedProduct> matchGrouped(Module&, OpId fused, const Lowered&);

} // namespace dtc
