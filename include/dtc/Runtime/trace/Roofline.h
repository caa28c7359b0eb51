#pragma once
// The roofline of this machine, measured at run time (docs/cli.md, --stats).
#include "dtc/Support/ThreadPool.h"

namespace dtc {

struct MachineRate {
  // STREAM triad on arrays larger than the caches, 3 words per element; the better of plain and streaming
  // stores.
  double bytesPerNs = 0;
  // f32 FMA in registers, two operations each.
  double flopsPerNs = 0;
  // The roofline time: the max of memory time and compute time. 0 if the rates are unknown.
  [[nodiscard]] double rooflineNs(int64_t bytes, int64_t flops) const;
};

// Uses all workers of the pool, 96 MiB and some tens of milliseconds.
[[nodiscard]] MachineRate measureHost(ThreadPool& pool);

} // namespace dtc
