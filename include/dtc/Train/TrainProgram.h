#pragma once
// What a training run needs to know of its step program.
#include "dtc/Files/Inputs.h"
#include "dtc/IR/Module.h"

namespace dtc {

// A carried value: state of the run, from result `result` of a step to argument `argument` of the next.
struct CarriedState {
  size_t result = 0, argument = 0;
  std::string name; // in checkpoints: that of the user's program, or the argument's
};

struct ScalarResult {
  size_t result = 0;
  std::string name; // in the log
};

struct TrainProgram {
  std::string entry;
  std::vector<InputArgument> arguments; // with their global types
  std::vector<CarriedState> state;
  std::vector<ScalarResult> scalars; // float results of rank 0
  // Into `scalars`: the one named loss, else the first that is not carried; absent: none.
  std::optional<size_t> loss;
};

[[nodiscard]] std::vector<InputArgument> inputArgumentsOf(const Module&, FuncId);
[[nodiscard]] TrainProgram trainProgramOf(const Module&, FuncId);

} // namespace dtc
