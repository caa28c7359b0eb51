#pragma once
// What becomes of values that a counted loop slices and writes row by row. Private to lib/Import.
#include "IndexRanges.h"
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"

namespace dtc {

// How often values are read in a block and all blocks inside, yields included.
class ValueUses {
public:
  ValueUses(const Module&, BlockId);
  [[nodiscard]] uint32_t operator[](ValueId v) const {
    auto found = counts_.find(v);
    return found == counts_.end() ? 0 : found->second;
  }

private:
  void count(const Module&, BlockId);
  std::unordered_map<ValueId, uint32_t> counts_;
};

// Other values for those in the map, in a block and all blocks inside.
void substitute(Module&, BlockId, const ValueMap&);

// The index of a loop: first, …, first + trips - 1.
struct LoopIndex {
  ValueId value;
  int64_t first = 0, trips = 0;
};

// A carried tensor of which each iteration writes one row, and the loop as a whole every row.
struct StackedRows {
  OpId write; // the dynamic_update_slice
  bool backwards = false;
};
// Nothing unless what `body` carries as its argument k is that, and nothing else in the body reads it.
[[nodiscard]] std::optional<StackedRows> stackedRows(const Module&, const IndexRanges&, const ValueUses&,
                                                     BlockId body, size_t k, const LoopIndex&);
// The row as a `for` stacks it: f32[3].
[[nodiscard]] ValueId rowOf(Module&, Builder&, const StackedRows&);

// source[…, index, …]: one row along `dim`, at an index that is within the tensor.
struct RowSlice {
  ValueId source, index; // an i32
  int64_t dim = 0;
};
// Nothing unless `reshape` drops the sliced dim of a dynamic_slice that is such a row.
[[nodiscard]] std::optional<RowSlice> rowSlice(const Module&, const IndexRanges&, OpId reshape);

// Removes ops without effects whose results nobody reads: those in the blocks of `loops`, and those that `starts` come from.
void dropDead(Module&, std::span<const OpId> loops, std::span<const ValueId> starts);

} // namespace dtc
