#pragma once
// fuse: groups the ops of local functions into `fused` regions, one kernel or library call each (ir.md §1).
#include "dtc/Passes/Pass.h"

namespace dtc {

// Option `limit`: how many ops one region may have; 1 makes every op a kernel of its own (-O0).
[[nodiscard]] bool fusePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo fuseInfo();

} // namespace dtc
