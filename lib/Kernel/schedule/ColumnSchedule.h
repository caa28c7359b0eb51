#pragma once
// How a CUDA block reduces columns: `across` threads cover the columns, each with a pack of neighbors in its
// own accumulators, and `down` such groups share the rows; they combine their results through shared memory.
#include "dtc/Kernel/schedule/Schedule.h"

namespace dtc {

struct ColumnSchedule {
  loops::AxisId lane = 0;   // along the columns
  loops::AxisId shared = 0; // of the reduced axes: the one whose iterations the groups of threads share
  std::vector<loops::AxisId> axes; // all reduced axes
  int64_t pack = 1;
  int across = 32, down = 8;                                    // kMostThreads in total
  [[nodiscard]] int64_t block() const { return across * pack; } // columns of a block
};

// Nothing where the nest is not a reduction of columns, or where threads would be idle.
[[nodiscard]] std::optional<ColumnSchedule> columnScheduleOf(const loops::Kernel& k, const loops::Nest& nest);
// A unit is a run of columns at one point of the other axes.
[[nodiscard]] loops::NestPlan planColumns(const loops::Kernel& k, const loops::Nest& nest,
                                          const ColumnSchedule& s);

} // namespace dtc
