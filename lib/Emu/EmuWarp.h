#pragma once
// The operations of a warp: what each lane gets once all of them have arrived.
#include "EmuThread.h"
#include <optional>
#include <span>

namespace dtc {

// The lanes of one warp that exist, in order. `memory`: the shared memory of their block.
struct EmuWarp {
  std::span<EmuThread> lanes;
  std::span<const uint8_t> memory;
  bool checked = false;
};
struct EmuWarpError {
  uint32_t lane = 0;
  std::string text;
};

// Completes the operation in which the lanes of the set `taking` wait. An error where another lane has
// returned, or a value is read that no lane gives.
[[nodiscard]] std::optional<EmuWarpError> completeWarpOp(const EmuWarp& warp, uint32_t taking);

// __syncwarp, the only one that orders memory: afterwards each of these lanes knows what any of them knew.
// Returns their clock.
uint32_t orderLanes(std::span<EmuThread> warp, uint32_t taking);

// Calls fn(lane) for each lane of the set.
template <class Fn> void eachLane(uint32_t lanes, Fn&& fn) {
  for (; lanes; lanes &= lanes - 1) fn(static_cast<uint32_t>(__builtin_ctz(lanes)));
}

} // namespace dtc
