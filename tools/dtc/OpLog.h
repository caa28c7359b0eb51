#pragma once
// The lines of `dtc run --log-ops`.
#include "Job.h"

#include "dtc/Runtime/run/Executable.h"

#include <map>

namespace dtc {

class OpLog {
public:
  // `job`: null for one process, whose lines are written at once.
  OpLog(Environment& env, Job* job) : env_(env), job_(job) {}
  // "device d=0: %sum = all_reduce(d), sends 6 B -> 6". After the step, on the device at `coordinate`.
  void step(const Executable&, const StringTable&, const StepInfo&, int64_t coordinate);
  // In a run of several processes, process 0 writes the lines of all, by device; after an error, without `together`, each
  // its own.
  [[nodiscard]] Status end(Communicator&, bool together);

private:
  Environment& env_;
  Job* job_;
  std::map<int64_t, std::string> lines_; // of several processes, by device
};

} // namespace dtc
