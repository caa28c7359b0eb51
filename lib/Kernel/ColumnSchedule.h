#pragma once
// How a CUDA block reduces columns (private to lib/Kernel): `across` threads lie along the columns, each with a pack of neighbours in
// accumulators of its own, and `down` such runs share the rows; they combine what they have through shared memory.
#include "dtc/Kernel/Schedule.h"

namespace dtc {

struct ColumnSchedule {
  loops::AxisId lane = 0;          // along the columns
  loops::AxisId shared = 0;        // of the reduced axes: the one whose steps the runs of threads share
  std::vector<loops::AxisId> axes; // all that are reduced
  int64_t pack = 1;
  int across = 32, down = 8;                                    // kMostThreads in all
  [[nodiscard]] int64_t block() const { return across * pack; } // columns of a block
};

// Nothing where the nest is no reduction of columns, or where threads would stay idle.
[[nodiscard]] std::optional<ColumnSchedule> columnScheduleOf(const loops::Kernel& k, const loops::Nest& nest);
// Each unit: a run of columns of one point of the other axes.
[[nodiscard]] loops::NestPlan planColumns(const loops::Kernel& k, const loops::Nest& nest,
                                          const ColumnSchedule& s);

} // namespace dtc
