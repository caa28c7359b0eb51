#pragma once
// Which regions are a grouped product that is made tile by tile (private to lib/Kernel).
#include "Lower.h"

namespace dtc {

// A region of one grouped_matmul of floats, with as many groups as the device header takes.
[[nodiscard]] std::optional<loops::GroupedProduct> matchGrouped(Module&, OpId fused, const Lowered&);

} // namespace dtc
