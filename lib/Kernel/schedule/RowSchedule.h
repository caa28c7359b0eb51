#pragma once
// Schedules of row kernels: nests whose reductions and stores run over one row of elements each.
//
// Every pass over the row gives a thread the same elements: packs of `pack` neighbors, so that an access has
// up to 16 bytes, `steps` times. So values that a thread reads or computes in one pass stay with it for the
// next passes, without a barrier: in registers, or in shared memory where the row is too long for them.
// Global memory is read once.
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/schedule/Schedule.h"

namespace dtc {

struct RowSchedule {
  enum class Keep : uint8_t { Registers, Shared, Nothing }; // Nothing: each pass reads global memory again
  Keep keep = Keep::Registers;
  // Where a block that walks rows keeps the partial columns; Nothing: in the result's memory.
  Keep columns = Keep::Nothing;
  // Columns in shared memory by their position in the row, not by thread: for rows with unaligned starts.
  bool placed = false;
  bool ahead = false; // for walked rows: the next one is prefetched while this one is computed
  // for walked rows: what is the same for all (RowNest::onceBytes) is read before them, and kept; else read again in
  // each pass
  bool once = false;
  int threads = 128;  // per block
  int perRow = 128;   // threads per row: all, or a power of two up to a warp with several rows per block
  int cluster = 1;    // blocks that share a row, each with a part of it; threads are numbered across them
  int64_t pack = 1;   // neighbors that a thread processes at once
  bool edged = false; // RowNest::edged
  int64_t steps = 1;  // packs per thread; Keep::Nothing: those in flight at a time
  // the reads of a single pass are issued before it computes anything, not step by step
  bool together = true;
  bool costly = true; // also keep values that are expensive to recompute
  int registers = 0;  // per thread, estimated
  // Blocks of a multiprocessor that the compiler must leave registers for, so that all run at once; 0: any number.
  int minBlocks = 0;
  [[nodiscard]] int rows() const { return threads / perRow; }
  [[nodiscard]] int64_t rowThreads() const { return int64_t(perRow) * cluster; }
  friend bool operator==(const RowSchedule&, const RowSchedule&) = default;
};

// A value per element that a pass produces and that this pass or later ones use.
struct RowValue {
  loops::NodeId node;
  bool load = false;       // loaded in packs; else computed, and kept only if RowSchedule::costly
  int first = 0, last = 0; // passes
  int bytes = 4;
};

// The properties of a nest shared by its schedules.
struct RowNest {
  std::vector<loops::AxisId> axes; // of the row; the last is the contiguous one
  loops::AxisSet set = 0;
  int64_t elements = 0; // of a row; 0: unknown
  int64_t rows = 0;     // 0: unknown
  loops::Size count;    // number of rows, as text and formulas have it
  // There are row axes, so that a block may take several rows: by one constant, or one argument.
  bool several = false;
  [[nodiscard]] bool fillsBlocks(int rowsPerBlock) const {
    return count.isStatic() && count.number % rowsPerBlock == 0;
  }
  loops::Size length;           // length of a row, as text has it
  int64_t pack = 1, widest = 1; // neighbors that a thread takes, and would take if rows were aligned
  // Rows may start at any element of a pack: packs are those of `origin`, an address along the row, and the
  // elements before and after them, fewer than two packs, are edges, each handled by one thread. Only with
  // one axis.
  bool edged = false;
  loops::AffineId origin;
  int passes = 0;
  int aheadBytes = 0;           // per element, prefetched
  int onceBytes = 0;            // per element, the same for all walked rows: no part of the values
  int columnBytes = 0;          // per element, of columns: for walked rows (Nest::walked)
  bool only = false;            // there are no other loops
  std::vector<RowValue> values; // with expensive values kept
  std::vector<RowValue> loads;  // without
  [[nodiscard]] const std::vector<RowValue>& kept(bool costly) const { return costly ? values : loads; }
};

// Nothing where the nest has no such rows: lanes along a row axis, an order, a sort; or where edges have no
// benefit.
[[nodiscard]] std::optional<RowNest> rowNestOf(const loops::Kernel& k, const loops::Nest& nest,
                                               const loops::NestPlan& plan, bool edged);
// True if the accesses along the row are aligned packs wherever the row's packs are.
[[nodiscard]] bool isInRowPacks(const loops::Kernel& k, const RowNest& row, loops::AffineId address);
// True if the node is read in packs; true if it is expensive enough to be kept.
[[nodiscard]] bool isRowPack(const loops::Kernel& k, const RowNest& row, loops::NodeId n);
// True if a load is the same for all walked rows: weights.
[[nodiscard]] bool isSameForWalked(const loops::Kernel& k, const loops::Nest& nest, loops::NodeId load);
[[nodiscard]] bool isRowCostly(const loops::Kernel& k, const RowNest& row, loops::NodeId n);
// For columns to which any thread adds (RowSchedule::placed), the distance between neighbors of a pack: the
// same element of neighboring packs then is a neighbor in shared memory, wherever the row's packs begin.
[[nodiscard]] int64_t columnStride(const RowNest& row);
// Dynamic shared memory of a block under a schedule that keeps values there.
[[nodiscard]] int64_t sharedBytes(const RowNest& row, const RowSchedule& s);
// All schedules that fit the target, the best (by a model, RowSchedule.cpp) first. `threads`: those of a
// block, 0: any number.
[[nodiscard]] std::vector<RowSchedule> rowSchedules(const loops::Kernel& k, const loops::Nest& nest,
                                                    const loops::NestPlan& plan, const Target& target,
                                                    int threads);
// At most this many, each of another shape; the last uses the fewest registers.
[[nodiscard]] std::vector<RowSchedule> severalOf(std::vector<RowSchedule> all, size_t maxKernels);
// A description for the user: "in registers, 256 threads per row, 4 packs of 8 per thread".
[[nodiscard]] std::string describe(const RowSchedule& s);

} // namespace dtc
