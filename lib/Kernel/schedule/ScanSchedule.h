#pragma once
// How the threads of a CUDA block process a row of a scan.
//
// A row is processed in chunks; global memory is read and written once.
// - Lanes along the row, if it is contiguous: in a chunk each warp has a run of `steps` times 32 packs, each
// lane one of the 32. The prefix of a pack is found by shuffles, the prefix of a warp through shared memory,
// and all threads carry the prefix of the chunk.
// - Lanes across rows, if neighbors of different rows are contiguous: in a chunk each thread has `steps`
// neighbors of its own row, `groups` threads share a row, and the prefix of a thread is found through shared
// memory.
#include "dtc/Kernel/Kernel.h"

namespace dtc {

struct ScanSchedule {
  loops::AxisId axis = 0;              // along the row
  std::vector<loops::AxisId> rows;     // the others, outermost first
  std::optional<loops::AxisId> across; // of `rows`: the axis of the lanes
  int lanes = 32;                      // this many rows, then
  int threads = 256;                   // per block
  int perRow = 256;                    // per row
  int64_t pack = 1;                    // neighbors that a thread processes at once
  int64_t steps = 1;                   // packs per thread and chunk
  bool ahead = false;                  // the next chunk is loaded before this one is scanned
  [[nodiscard]] int rowsOfBlock() const { return threads / perRow; }
  [[nodiscard]] int64_t chunk() const { return perRow * pack * steps; }
};

// In order of estimated speed; none where the kernel is not a scan, where its order is fixed, or where the
// row is short enough for one thread.
[[nodiscard]] std::vector<ScanSchedule> scanSchedules(const loops::Kernel& k, const Target& target);

// True if `count` neighbors along `lane` are contiguous in reverse, the last of them at a multiple of
// `count`.
[[nodiscard]] bool isInReversedPacks(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane,
                                     int64_t count);

} // namespace dtc
