#pragma once
// optimize-collectives: fewer and smaller messages for the same values.
//
// Needs local text; runs after partition, which writes the collectives of each reshard by themselves, and before fuse, so
// that what is left is what really travels (communication contracts count after it). Within one block: equal collectives
// become one; a slice of a reduction becomes a reduce_scatter; reductions, gathers and slices that follow each other become
// one; a gather and the slice that undoes it go, and collectives whose results nobody reads. It is for all devices alike:
// no step depends on which device runs it.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool optimizeCollectives(Module&, Diagnostics&);
[[nodiscard]] bool optimizeCollectivesPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo optimizeCollectivesInfo();

} // namespace dtc
