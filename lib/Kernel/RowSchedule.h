#pragma once
// Schedules of row kernels: nests whose reductions and stores run over one row of elements each (private to lib/Kernel).
//
// Every pass over the row gives a thread the same elements: `pack` neighbours at a time, so that an access has up to 16 bytes,
// and that `steps` times. What a thread reads or computes in one pass it so keeps to itself for the next ones, without a
// barrier: in registers, or in shared memory where the row is too long for them. Global memory is read once.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/Schedule.h"

namespace dtc {

struct RowSchedule {
  enum class Keep : uint8_t { Registers, Shared, Nothing }; // Nothing: each pass reads global memory again
  Keep keep = Keep::Registers;
  Keep columns =
      Keep::Nothing; // where a block that walks rows has the columns so far; Nothing: in the result's memory
  bool placed =
      false; // columns in shared memory by their place in the row, not by thread: where rows begin anywhere in a pack
  bool ahead = false;   // where rows are walked: the next one is read while this one is computed
  int threads = 128;    // of a block
  int perRow = 128;     // of them on one row: all, or a power of two up to a warp with several rows a block
  int cluster = 1;      // blocks that share a row, each with a part of it; their threads count on
  int64_t pack = 1;     // neighbours that a thread takes at once
  bool edged = false;   // RowNest::edged
  int64_t steps = 1;    // packs of a thread; Keep::Nothing: that are under way at a time
  bool together = true; // what a single pass reads is read before it computes anything, not step by step
  bool costly = true;   // keep also what is dear to compute again
  int registers = 0;    // of a thread, as estimated
  [[nodiscard]] int rows() const { return threads / perRow; }
  [[nodiscard]] int64_t rowThreads() const { return int64_t(perRow) * cluster; }
  friend bool operator==(const RowSchedule&, const RowSchedule&) = default;
};

// Something of each element that a pass makes and that pass or later ones use.
struct RowValue {
  loops::NodeId node;
  bool load = false;       // in packs from memory; else computed, and kept only where RowSchedule::costly
  int first = 0, last = 0; // passes
  int bytes = 4;
};

// What its passes over a row have in common.
struct RowNest {
  std::vector<loops::AxisId> axes; // of the row; the last is the one whose neighbours lie together
  loops::AxisSet set = 0;
  int64_t elements = 0; // of a row; 0: not known
  int64_t rows = 0;     // 0: not known
  loops::Size count;    // of rows, as text and formulas have it
  bool several =
      false; // there are axes of rows, so that a block may take several: by one number, or one argument
  [[nodiscard]] bool wholeBlocks(int rowsPerBlock) const {
    return count.isStatic() && count.number % rowsPerBlock == 0;
  }
  loops::Size length;           // of a row, as text has it
  int64_t pack = 1, widest = 1; // neighbours that a thread takes, and would take if rows were aligned
  // Rows begin anywhere in a pack: packs are those of `origin`, an address along the row, and the elements before and behind them, fewer than
  // two packs, are edges, each one thread's. One axis.
  bool edged = false;
  loops::AffineId origin;
  int passes = 0;
  int aheadBytes = 0;           // of one element, that would be read ahead
  int columnBytes = 0;          // of one element, that columns take: rows that are walked (Nest::walked)
  bool only = false;            // there are no other loops
  std::vector<RowValue> values; // where what is dear is kept
  std::vector<RowValue> loads;  // where it is not
  [[nodiscard]] const std::vector<RowValue>& kept(bool costly) const { return costly ? values : loads; }
};

// Nothing where the nest has no rows to walk so: lanes along a row axis, an order, a sort; where edges gain nothing.
[[nodiscard]] std::optional<RowNest> rowNestOf(const loops::Kernel& k, const loops::Nest& nest,
                                               const loops::NestPlan& plan, bool edged);
// Are the accesses along the row in aligned packs, where the row's packs are.
[[nodiscard]] bool liesInRowPacks(const loops::Kernel& k, const RowNest& row, loops::AffineId address);
// Is the node read in packs, and is it dear enough to be kept.
[[nodiscard]] bool isRowPack(const loops::Kernel& k, const RowNest& row, loops::NodeId n);
[[nodiscard]] bool isRowCostly(const loops::Kernel& k, const RowNest& row, loops::NodeId n);
// Columns of which neighbours in a pack lie so far apart, where any thread adds to any (RowSchedule::placed): the same element of
// neighbouring packs then is a neighbour in shared memory, wherever the row's packs begin.
[[nodiscard]] int64_t columnStride(const RowNest& row);
// Dynamic shared memory of a block under a schedule that keeps values there.
[[nodiscard]] int64_t sharedBytes(const RowNest& row, const RowSchedule& s);
// All that fit the target, the best (by a model, RowSchedule.cpp) first. `threads`: that a block has, 0: any number.
[[nodiscard]] std::vector<RowSchedule> rowSchedules(const loops::Kernel& k, const loops::Nest& nest,
                                                    const loops::NestPlan& plan, const CudaTarget& target,
                                                    int threads);
// At most so many, each of another shape; the last takes the fewest registers.
[[nodiscard]] std::vector<RowSchedule> severalOf(std::vector<RowSchedule> all, size_t most);
// "in registers, 256 threads a row, 4 packs of 8": what a person reads of it.
[[nodiscard]] std::string describe(const RowSchedule& s);

} // namespace dtc
