#pragma once
// What `dtc run` does, step by step.
#include "Program.h"

namespace dtc {

struct RunOptions {
  ProgramOptions program;
  std::vector<std::string> inputs, outputs, prints;
  std::string backend = "cpu", policy, reduceDType, trace, comm, commDump, reductionOrder = "any",
              matmulPrecision = "highest";
  int optLevel = 1, repeat = 1, warmup = 0, loop = 0; // loop: 0 where it was not asked for
  double commTimeout = 600;                           // seconds
  bool commTimeoutGiven = false;
  int threads = 0; // 0: as many as there are cores
  bool deterministic = false, noGraphs = false, hostPredicates = false, noOverlap = false, noCudnn = false,
       libraryRelu = false;
  bool noEmuChecks = false, strictNonFinite = false;
  bool nan = false; // look for the op that makes the first NaN
  bool check = false, stats = false, logOps = false, timing = false, json = false;
};

// Flags that contradict each other, have wrong values, or ask for what this version does not have.
[[nodiscard]] Status checkFlags(const RunOptions& o);
// Says on standard error which flags change nothing on the backend that runs the program.
void noteUnusedFlags(Environment& env, const RunOptions& o);
[[nodiscard]] int executeProgram(Environment& env, const RunOptions& o);

} // namespace dtc
