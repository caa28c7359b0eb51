#pragma once
// What this machine can do at most, measured now: what "percent of floor" is a percentage of (docs/cli.md, --stats).
#include "dtc/Support/ThreadPool.h"

namespace dtc {

struct MachineRate {
  double bytesPerNs =
      0; // of a triad over arrays past the caches, 3 words an element, the better of plain and streaming stores
  double flopsPerNs = 0; // f32 multiply-adds in registers, two operations each
  // The least time for so much work: the longer of moving the bytes and doing the operations. 0 where nothing is known.
  [[nodiscard]] double floorNs(int64_t bytes, int64_t flops) const;
};

// Takes some tens of milliseconds and 96 MiB. All workers of the pool.
[[nodiscard]] MachineRate measureHost(ThreadPool& pool);

} // namespace dtc
