#pragma once
// fuse: groups the ops of local functions into `fused` regions, one kernel or library call each (ir.md).
#include "dtc/Passes/Pass.h"

namespace dtc {

// Option `limit`: the max number of ops per region; 1 makes every op a kernel of its own (-O0).
[[nodiscard]] bool fusePass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
