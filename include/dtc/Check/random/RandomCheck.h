#pragma once
// A random program (RandomProgram.h), run in every way that must give the same result: compiled against the
// reference evaluator, sharded against unsharded, optimized against not, on each backend, and twice.
#include "dtc/Check/random/RandomProgram.h"
#include "dtc/Session/Session.h"

namespace dtc {

struct RandomCheckOptions {
  RandomProgramOptions program;
  bool evaluator = true;                                   // the local text on the many-device evaluator
  std::vector<std::string> backends = {"cpu", "cuda-emu"}; // and compiled
};

struct RandomFailure {
  std::string how; // "cpu -O1"
  std::string why;
};

struct RandomCheckReport {
  RandomProgram program;
  int runs = 0; // number of compared runs
  std::vector<RandomFailure> failures;
};

// Programs that the reference evaluator refuses (an index out of range) are not run.
[[nodiscard]] RandomCheckReport checkRandomProgram(uint64_t seed, const OpRegistry& ops, Machine&,
                                                   const RandomCheckOptions& options = {});

} // namespace dtc
