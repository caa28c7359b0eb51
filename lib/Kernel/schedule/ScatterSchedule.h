#pragma once
// How CUDA blocks apply a list of updates to rows at indices (lib/Kernel/device/scatter_block.h): each block owns
// a range of rows and a strip of their columns, and finds the updates of its rows in the list.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/LoopIr.h"

namespace dtc {

struct ScatterSchedule {
  std::vector<loops::AxisId> lists; // a list of updates, and rows, for each of their points
  std::optional<loops::AxisId> row; // of the result; none: there is one
  loops::Size rowStride;
  std::vector<loops::AxisId> steps;  // the updates of a list, in order
  std::optional<loops::AxisId> lane; // along the contiguous elements of a row; none: a row is one element
  int64_t pack = 1;                  // neighbors that a thread has
  int across = 1, groups = 256;      // threads that share a row, and rows that a block has at once
  int64_t ranges = 1;                // of the rows of a list
  int resident = 4; // blocks that a multiprocessor has at once: registers are limited to that
  [[nodiscard]] int threads() const { return across * groups; }
  [[nodiscard]] int64_t strip() const { return across * pack; } // columns of a block
};

// Nothing where the nest does not have this form, or where there are enough lists for a thread of each.
[[nodiscard]] std::optional<ScatterSchedule> scatterScheduleOf(const loops::Kernel& k, const Target& target);
// The row of an update, as an index over lists and steps, where the update's condition holds.
[[nodiscard]] loops::AffineId rowOfUpdate(loops::Kernel& k, const ScatterSchedule& s);
// True if `count` neighbors along the lane are contiguous, the first of them at a multiple of `count`; other
// strides may be symbolic.
[[nodiscard]] bool isInLanePacks(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane,
                                 int64_t count);

} // namespace dtc
