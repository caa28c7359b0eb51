#pragma once
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Checks that one kernel or library call computes each `fused` region, and that the region is of the kind that
// the text says. A region without a kind is a generated kernel.
[[nodiscard]] bool checkFusedRegions(Module& m, Diagnostics& diags);

} // namespace dtc
