#pragma once
// The time of a local program on the nominal machine, used to compare changes of annotations.
#include "dtc/Passes/trace/TraceCollectives.h"
#include "dtc/Report/explain/ExplainProgram.h"

namespace dtc {

struct ProgramTime {
  double computeSeconds = 0; // per op: the max of its arithmetic and its memory traffic
  double commSeconds = 0;
  // Sizes and iteration counts are known; unknown sizes count as 0, an unknown loop as one iteration.
  bool complete = true;
  std::vector<AxisCost> axes;
  // By op of the local program, of all its executions: the summands of computeSeconds, and the time that
  // computation waits for a collective.
  std::unordered_map<OpId, double> compute, exposed;
};

[[nodiscard]] ProgramTime timeOf(CollectiveTrace&, const NominalMachine&);

} // namespace dtc
