#pragma once
// Random programs: every op of the registry that can be computed, odd sizes, all dtypes, several meshes,
// control flow, gradients. A seed determines one program, the same on every machine.
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

struct RandomProgram {
  uint64_t seed = 0;
  std::string text;                // one module, with the command that runs it in its first line
  std::vector<std::string> inputs; // of its @main, as `--input` takes them
};

struct RandomProgramOptions {
  int statements = 10;   // approximate number
  bool mesh = true;      // false: one device
  bool control = true;   // for, while, cond, call and value_and_grad too
  bool notFinite = true; // with a mesh: sums and maxima of 0, infinities and NaN, in one program of four
};

// Avoids cases in which two correct implementations may differ: logarithms get positive operands, narrow
// floats small ones, and discontinuous ops (comparisons, rounding, indices of maximum elements) only values
// that were never rounded.
[[nodiscard]] RandomProgram makeRandomProgram(uint64_t seed, const OpRegistry& ops,
                                              const RandomProgramOptions& options = {});

} // namespace dtc
