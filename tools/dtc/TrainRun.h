#pragma once
// Training runs of `dtc run`: from flags to lib/Train.
#include "Execute.h"
#include "dtc/Check/run/NanSearch.h"
#include "dtc/Train/Evaluation.h"

namespace dtc {

// Error (Usage): malformed values of --data and --eval. What the run provides is not set.
[[nodiscard]] Result<TrainOptions> trainOptionsOf(const Environment&, const RunOptions&);
[[nodiscard]] Result<std::vector<DataSpec>> evalDataOf(const RunOptions&);

// "note: resumed after step 6"; empty if it was not resumed. `complete`: all steps have been taken.
[[nodiscard]] std::string resumedText(const Training&, bool complete);

// Reports that a signal has stopped the run after `steps` steps; their checkpoint is complete.
void reportStopped(Environment&, int64_t steps);

// --- A NaN in training ---
[[nodiscard]] Error nanError(const Training&, int64_t step); // the report of it, in step `step` (from 0)
// Takes the steps before step `step` again, from the last checkpoint on. Returns the first that makes a NaN, or `step`;
// `inspected`, which is loaded to be searched, gets the state before it and its data.
using SetArguments = std::function<Status(Executable&, bool first)>;
[[nodiscard]] Result<int64_t> firstNanStep(Training&, std::vector<TensorSource>& sources, int64_t step,
                                           Executable& runs, Executable& inspected, const SetArguments&);
[[nodiscard]] Status inspectRun(NanSearch&, Executable&); // runs once
// The command line that takes step `step` again, after `step` - 1 steps, and finds its first NaN.
[[nodiscard]] std::string nanCommand(const Environment&, int64_t step, bool checkpoint);

} // namespace dtc
