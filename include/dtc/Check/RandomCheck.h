#pragma once
// A random program (RandomProgram.h), run in every way that must give the same: what is compiled against the reference
// evaluator, sharded against unsharded, optimised against not, on each backend, and twice.
#include "dtc/Check/RandomProgram.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/ThreadPool.h"

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
  int runs = 0; // how often it was run and compared
  std::vector<RandomFailure> failures;
};

// `jit` and `pool` are used by every run. Programs that the reference evaluator refuses (an index out of range) are not run.
[[nodiscard]] RandomCheckReport checkRandomProgram(uint64_t seed, const OpRegistry& ops, const CpuJit& jit,
                                                   ThreadPool& pool, const RandomCheckOptions& options = {});

} // namespace dtc
