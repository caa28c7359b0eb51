#pragma once
// The programs of the devices of a pipeline: each has the ops of its own stages, in the order of a schedule, and
// exchanges values with others by `p2p`.
#include "stages/StagedFunction.h"

namespace dtc {

// Replaces the body of `entry` by the program of the devices with index 0 along `axis`, and adds a function for each
// other index. Arguments and results that not all devices use or compute get {devices = […]}. False, with a diagnostic,
// if an op needs a value that the order computes later.
[[nodiscard]] bool writeStagePrograms(Module&, FuncId entry, const StagedFunction&,
                                      const std::vector<std::vector<PipelineAction>>& order, StrId axis,
                                      Diagnostics&);

} // namespace dtc
