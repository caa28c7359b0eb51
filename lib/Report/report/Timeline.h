#pragma once
// The steps of a scheduled function over time, on the nominal machine.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Machine.h"

#include <string>
#include <vector>

namespace dtc {

struct TimelineStep {
  enum Kind : uint8_t {
    Compute,
    Communicate, // a collective, from its start to the end of its messages
    Repeat,      // the further iterations of a loop, of which the first is listed before
    Host,        // print and the like
  } kind = Compute;
  OpId op;
  size_t stream = 0; // of Timeline::streams
  double begin = 0, seconds = 0;
  double exposed = 0; // of Communicate: the time that the device waits for it
  double flops = 0, bytes = 0;
  double times = 1; // executions in one run: the iterations of its loops
};

struct Timeline {
  std::vector<std::string> streams; // "compute", "tp": a stream per set of axes
  std::vector<TimelineStep> steps;  // in program order
  double seconds = 0, computeSeconds = 0, exposedSeconds = 0;
  bool complete = true; // false: a size or a number of iterations is unknown, and counts as nothing or one
};

// A device computes one step at a time, in the order of the text. A message starts when its axes are free, and
// takes the collective's price. `done`, and a collective without it, waits for the end.
[[nodiscard]] Timeline timelineOf(Module&, FuncId scheduled, const NominalMachine& = {});

} // namespace dtc
