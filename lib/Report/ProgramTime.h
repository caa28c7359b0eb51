#pragma once
// How long a local program takes on the nominal machine: what changes of annotations are compared by.
#include "dtc/Passes/TraceCollectives.h"
#include "dtc/Report/ExplainProgram.h"

namespace dtc {

struct ProgramTime {
  double computeSeconds = 0; // each op by itself: the longer of its arithmetic and its traffic to memory
  double commSeconds = 0;
  bool complete =
      true; // sizes and trip counts are known; what is not counts as nothing, an unknown loop as one trip
  std::vector<AxisCost> axes;
};

[[nodiscard]] ProgramTime timeOf(CollectiveTrace&, const NominalMachine&);

} // namespace dtc
