#pragma once
// The implementation of `dtc run`.
#include "Job.h"
#include "PrintAfter.h"
#include "Program.h"

namespace dtc {

// Flags of training runs (docs/training.md).
struct TrainFlags {
  std::vector<std::string> data, eval;
  std::string checkpoint, log;
  int checkpointEvery = 0, checkpointKeep = 0, evalEvery = 0; // 0 if not given
  bool resume = false;
  friend bool operator==(const TrainFlags&, const TrainFlags&) = default;
};

struct RunOptions {
  ProgramOptions program;
  std::vector<std::string> inputs, outputs, prints, texts;
  LoweringFlags lowering;
  TrainFlags train;
  PrintAfterFlags printAfter;
  std::string backend = "cpu", trace, comm, commDump, matmulPrecision = "highest";
  int repeat = 1, warmup = 0, loop = 0; // loop: 0 if not given
  double commTimeout = 600;             // seconds
  bool commTimeoutGiven = false;
  int threads = 0;           // 0: one per core
  int devicesPerProcess = 0; // in several processes; 0: equally many
  bool deterministic = false, noGraphs = false, hostPredicates = false, noCudnn = false, libraryRelu = false;
  bool noEmuChecks = false;
  bool nan = false; // search for the op that produces the first NaN
  bool check = false, stats = false, logOps = false, timing = false, json = false;
  // Whether the processes that a launcher has started run one program together.
  [[nodiscard]] bool inProcesses() const;
};

// Errors (Usage): contradictory flags and invalid values.
[[nodiscard]] Status checkFlags(const RunOptions& o);
// Error (Usage): a file that is written after the run is in a folder that does not exist.
[[nodiscard]] Status checkWrittenFolders(const RunOptions& o);
// Error (Usage): the devices of the mesh cannot be shared equally by the processes, or not as asked.
[[nodiscard]] Status checkProcesses(const RunOptions& o, int64_t numDevices, int64_t numProcesses);
// Prints a warning if a launcher has started several processes, and no --comm is given.
void warnIfAlone(Environment& env, const RunOptions& o);
// Prints a note for each flag that has no effect on the selected backend.
void noteUnusedFlags(Environment& env, const RunOptions& o);
[[nodiscard]] Result<int> executeProgram(Environment& env, const RunOptions& o);

} // namespace dtc
