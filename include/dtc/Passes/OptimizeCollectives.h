#pragma once
// optimize-collectives: fewer and smaller messages for the same values.
//
// Needs local text; runs after partition, which writes the collectives of each reshard by themselves, and before fuse, so
// that what is left is what really travels (communication contracts count after it). Three steps, on every block by itself:
// what a loop would say again on every trip is said once, before or after it; equal collectives become one, neighbours are
// joined or cancelled, and what nobody reads goes; many small messages of one kind become one. It is for all devices alike:
// no step depends on which device runs it.
#include "dtc/Passes/Pass.h"
#include "dtc/Sharding/Machine.h"

namespace dtc {

struct OptimizeCollectivesOptions {
  bool hoist = true;
  bool bucket = true;
  int64_t bucketBytes =
      0; // at which a bucket is full; 0: where the fixed cost of its message is an eighth of the rest
  NominalMachine machine;
};

[[nodiscard]] bool optimizeCollectives(Module&, Diagnostics&, const OptimizeCollectivesOptions& = {});
[[nodiscard]] bool optimizeCollectivesPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo optimizeCollectivesInfo();

} // namespace dtc
