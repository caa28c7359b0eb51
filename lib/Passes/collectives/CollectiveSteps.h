#pragma once
// The steps of optimize-collectives. Each works on the spmd functions of a module.
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"

namespace dtc {

// Hoists loop-invariant collectives before the loop, and moves the reduction of an accumulated sum after it.
void hoistCollectives(Module&, std::span<const FuncId> functions, Diagnostics&);
// One round of erasing, merging and combining; true if something changed. Each round leaves fewer or cheaper
// collectives.
[[nodiscard]] bool joinCollectives(Module&, std::span<const FuncId>, Diagnostics&);
// Buckets small collectives if the fixed costs saved exceed the copies.
void bucketCollectives(Module&, FuncId, const OptimizeCollectivesOptions&, Diagnostics&);

} // namespace dtc
