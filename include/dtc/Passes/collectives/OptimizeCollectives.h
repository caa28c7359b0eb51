#pragma once
// optimize-collectives: fewer and smaller messages with the same results.
//
// Needs local text. Runs after partition, which plans each reshard separately, and before fuse, so that
// fusion and communication contracts see the final collectives. Three steps on every block: loop-invariant
// collectives and accumulated reductions are hoisted out of loops; equal collectives are merged, neighbors
// are combined or cancelled, and unused ones are erased; small collectives of one kind are bucketed. The
// result is the same for all devices: no step depends on the device.
#include "dtc/Passes/Pass.h"
#include "dtc/Sharding/Machine.h"

namespace dtc {

struct OptimizeCollectivesOptions {
  bool hoist = true;
  bool bucket = true;
  // Instead of all steps on programs with one function: buckets, in the functions of devices that differ, of collectives
  // between devices of a function.
  bool severalPrograms = false;
  int64_t bucketBytes = 0; // size of a full bucket; 0: the size whose transfer takes 8 times the fixed cost
  NominalMachine machine;
};

[[nodiscard]] bool optimizeCollectives(Module&, Diagnostics&, const OptimizeCollectivesOptions& = {});
[[nodiscard]] OptimizeCollectivesOptions optimizeCollectivesOptions(const PassOptions&);

} // namespace dtc
