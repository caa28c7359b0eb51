#pragma once
// Ops whose local programs communicate (ShardedOp.h), against the global op.
#include "dtc/Check/rules/RuleProver.h"
#include "dtc/Ops/record/Samples.h"

namespace dtc {

// Runs the op of the sample sharded along each factor that it communicates along, alone on meshes of 2 and 3
// devices and together with each other factor on one of 2 by 3, and compares each device's shard of each
// result with the expected one. Differences go to report.wrong.
void proveShardedOps(OpSample&, RuleReport& report);

} // namespace dtc
