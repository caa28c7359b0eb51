#pragma once
// collective-matmul: matmuls overlapped with the all_gather before them or the reduce_scatter after them, as
// rings of chunks (Wang et al., Overlap Communication with Dependent Computation via Decomposition in Large
// Deep Learning Models, 2023).
#include "dtc/Passes/Pass.h"
#include "dtc/Sharding/Machine.h"
#include <string_view>

namespace dtc {

// The machine that a ring is priced for.
struct RingMachine {
  NominalMachine nominal;
  double wideFlopsPerSecond = 100e12; // of elements of 4 bytes and more, which tensor cores do not multiply
  double kernelSeconds = 2e-6;        // the launch of one kernel or library call
};
// Of a GPU target, with the links of its generation; for another target, the nominal machine.
[[nodiscard]] RingMachine ringMachineOf(std::string_view target);

// Of the stretch of the program around a ring.
struct RingTimes {
  double secondsBefore = 0, secondsAfter = 0;
  double exposedBefore = 0, exposedAfter = 0; // the time that computation waits for messages
  bool pays = false;
};

struct CollectiveRing {
  std::string_view collective; // "all_gather"
  std::string axes, value;     // "tp"; the gathered or scattered value, "" without a name
  int64_t devices = 0;
  size_t products = 0, sums = 0; // contractions; those whose chunks are added up
  int64_t bytes = 0;             // of the value that does not exist any more
  RingTimes times;
  SourceRange loc;
};

enum class RingChoice : uint8_t { Off, Auto, On }; // On: wherever it is right, whatever the price

struct CollectiveMatmulOptions {
  RingChoice rings = RingChoice::Auto;
  bool fixedOrder = false; // no ring that changes the order of a sum
  RingMachine machine;
};

// Needs local text. Returns the rings, in program order.
std::vector<CollectiveRing> collectiveMatmul(Module&, const CollectiveMatmulOptions&, Diagnostics&);

// The time of a local program, list-scheduled as a GPU overlaps messages with computation, and the part of it
// in which computation waits. A loop of unknown length counts as one iteration.
struct OverlapTime {
  double seconds = 0, exposed = 0;
};
[[nodiscard]] OverlapTime overlapTimeOf(Module&, FuncId, const RingMachine&);

} // namespace dtc
