#pragma once
// Offsets for buffers whose lives are known (private to lib/Passes).
#include "dtc/Passes/PlanMemory.h"

namespace dtc {

// Fills in offsets, arenaBytes, lowerBound and peakPosition. False where the buffers pass 2^61-1 bytes together.
[[nodiscard]] bool placeBuffers(MemoryPlan& plan);

} // namespace dtc
