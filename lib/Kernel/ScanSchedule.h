#pragma once
// How the threads of a CUDA block walk along a row of a scan (private to lib/Kernel).
//
// A row goes by in chunks; global memory is read and written once.
// - Lanes along the row, where its neighbours lie together: of a chunk each warp has a run of `steps` times 32 packs, each lane one of
//   the 32. What stands before a pack is found by shuffles, what stands before a warp through shared memory, and all threads carry
//   what stands before the chunk.
// - Lanes across rows, where neighbours of different rows lie together: of a chunk each thread has `steps` neighbours of its
//   own row, `groups` threads share a row, and what stands before a thread is found through shared memory.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/Schedule.h"

namespace dtc {

struct ScanSchedule {
  loops::AxisId axis = 0;              // along the row
  std::vector<loops::AxisId> rows;     // the others, outermost first
  std::optional<loops::AxisId> across; // of `rows`: the lanes lie along it
  int lanes = 32;                      // so many, then
  int threads = 256;                   // of a block
  int perRow = 256;                    // of them on one row
  int64_t pack = 1;                    // neighbours that a thread takes at once
  int64_t steps = 1;                   // packs of a thread in a chunk
  [[nodiscard]] int rowsOfBlock() const { return threads / perRow; }
  [[nodiscard]] int64_t chunk() const { return perRow * pack * steps; }
};

// The likely best first; none where the kernel is no scan, where its order is fixed, or where a thread does well with a row of
// its own: the row is short.
[[nodiscard]] std::vector<ScanSchedule> scanSchedules(const loops::Kernel& k, const CudaTarget& target);

// Do `count` neighbours along `lane` lie together in the opposite direction, the last of them at a multiple of `count`?
[[nodiscard]] bool liesInTurnedPacks(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane,
                                     int64_t count);

} // namespace dtc
