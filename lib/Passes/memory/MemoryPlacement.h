#pragma once
// Assigns offsets to buffers with known live ranges.
#include "dtc/Passes/analysis/MemoryPlan.h"

namespace dtc {

// Sets offsets, arenaBytes, lowerBound and peakPosition. False if the total size of the buffers exceeds
// 2^61-1 bytes.
[[nodiscard]] bool placeBuffers(MemoryPlan& plan);

} // namespace dtc
