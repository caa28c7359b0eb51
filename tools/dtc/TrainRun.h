#pragma once
// Training runs of `dtc run`: from flags to lib/Train.
#include "Execute.h"
#include "dtc/Train/Evaluation.h"

namespace dtc {

// Error (Usage): malformed values of --data and --eval. What the run provides is not set.
[[nodiscard]] Result<TrainOptions> trainOptionsOf(const Environment&, const RunOptions&);
[[nodiscard]] Result<std::vector<DataSpec>> evalDataOf(const RunOptions&);

// The command line that takes step `step` again, after `step` - 1 steps, and finds its first NaN.
[[nodiscard]] std::string nanCommand(const Environment&, int64_t step, bool checkpoint);

} // namespace dtc
