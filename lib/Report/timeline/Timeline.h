#pragma once
// The steps of a scheduled program over time, on the nominal machine or another one.
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
  double exposed =
      0; // of Communicate: up to its end, the time in which the device waits and it is transferred
  double waited = 0; // of Communicate: before it begins, the time that the device waits for other devices
  double flops = 0, bytes = 0;
  double times = 1; // executions in one run: the iterations of its loops
};

// Of one function of the program.
struct Timeline {
  std::vector<std::string> streams; // "compute", "tp": a stream per set of axes
  std::vector<TimelineStep> steps;  // in program order
  double seconds = 0;               // of the whole program
  // These sum to `seconds`: of all executions, computation, exposed messages, and waits for other devices, also at the
  // end.
  double computeSeconds = 0, exposedSeconds = 0, waitSeconds = 0;
  // False: a size or a number of iterations is unknown, and counts as nothing or one; or functions issue their
  // collectives in orders that do not match, and one goes on without the others.
  bool complete = true;
};

// By function of the program, as functionsOfProgram. A device computes one step at a time, in the order of the text. A
// message starts when the devices of all functions that take part have issued it and its axes are free, and takes
// the collective's price. `done`, and a collective without it, waits for the end. The time of a wait is exposed time of
// the messages that are transferred in it (Exposure.h), so that 0 <= exposed <= seconds holds for each step. Of a
// conditional, the branch that takes longer runs.
[[nodiscard]] std::vector<Timeline> timelinesOf(Module&, FuncId entry, const NominalMachine& = {});

// The share of the devices' time in which they compute nothing: 1 - busy / (devices · time). Of a pipeline whose
// messages take no time, this is the bubble.
[[nodiscard]] double idleShare(const Module&, FuncId entry, const std::vector<Timeline>&);

} // namespace dtc
