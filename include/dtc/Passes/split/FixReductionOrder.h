#pragma once
// fix-reduction-order: makes sums of floats bitwise equal on every mesh (`--reduction-order fixed`).
//
// A sum of floats depends on the order of additions, and that on how its dims are sharded, and on the loops
// of a kernel, which are chosen by the local sizes. The latter is fixed by fuse (order=fixed: one lane
// computes each element's sum in order). For the former, sums and contractions are computed in chunks, whose
// number depends on the shape alone: partial results of chunks, each computed by one device, then a tree over
// chunk indices (ReductionChunks.h). Other ops that combine floats are unsharded along the reduced dims;
// those that are not independent along the other dims (scans, attention) are unsharded along all.
// Data-movement and elementwise ops, and reductions that are exact in every order (max, min, any, all,
// integers), stay sharded. Runs before propagate, which completes the shardings; each op is then a kernel of
// its own (fuse{limit=1}), because multiplications and additions within one kernel may be contracted to FMAs.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool fixReductionOrderPass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
