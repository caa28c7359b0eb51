#pragma once
// Tiles in shared memory, for nests without reductions whose loads and stores are contiguous along two different
// axes: a transpose, or an operand that is one. A block computes a tile of the plane of both axes, each thread a
// pack along `column`. Loads and stores that are contiguous along `row` instead are staged: they pass through
// shared memory, and threads access global memory along `row` for them.
#include "dtc/Kernel/schedule/Schedule.h"

namespace dtc {

struct TileSchedule {
  // A load or a store that is contiguous along `row`.
  struct Staged {
    loops::NodeId load; // invalid: a store
    size_t store = 0;   // its number in the nest
    uint32_t buffer = 0;
    loops::AffineId address;
    int64_t pack = 1; // neighbors along `row` per access
  };
  loops::AxisId row = 0, column = 0;
  std::vector<loops::AxisId> others; // a tile is at one point of these
  int64_t rows = 64, columns = 64;   // of a tile; powers of two
  int64_t pack = 1;                  // neighbors along `column` per thread
  std::vector<Staged> staged;
  std::vector<loops::NodeId>
      ahead; // loads along `column` that are issued before the barrier, with the staged ones
  [[nodiscard]] int64_t across() const { return columns / pack; } // threads along `column`
  [[nodiscard]] int64_t sideOf(loops::AxisId a) const { return a == row ? rows : a == column ? columns : 1; }
};

// Nothing where no access would be staged, or a tile has too few elements for the threads of a block.
[[nodiscard]] std::optional<TileSchedule> tileScheduleOf(const loops::Kernel& k, const loops::Nest& nest);
// A staged tile has lines along the axis along which memory is contiguous, with padding after each `linesPerPad`
// lines, so that a warp reads elements of as many banks as possible across them. In elements.
struct TileLayout {
  int64_t line = 0, linesPerPad = 1, padding = 0, bytes = 0;
};
[[nodiscard]] TileLayout layoutOf(const loops::Kernel& k, const TileSchedule& t,
                                  const TileSchedule::Staged& s);

} // namespace dtc
