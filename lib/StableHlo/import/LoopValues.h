#pragma once
// Values that a counted loop slices and writes row by row.
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"
#include "import/IndexRanges.h"

namespace dtc {

// The number of uses of each value in a block and its nested blocks, yields included.
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

// Replaces values by those in the map, in a block and its nested blocks.
void substitute(Module&, BlockId, const ValueMap&);

// The index of a loop: first, …, first + iterations - 1.
struct LoopIndex {
  ValueId value;
  int64_t first = 0, iterations = 0;
};

// A carried tensor of which each iteration writes one row, and the loop as a whole every row.
struct StackedRows {
  OpId write; // the dynamic_update_slice
  bool backwards = false;
};
// Nothing unless argument k of `body` is carried this way and has no other users in the body.
[[nodiscard]] std::optional<StackedRows> stackedRows(const Module&, const IndexRanges&, const ValueUses&,
                                                     BlockId body, size_t k, const LoopIndex&);
// The row as a `for` stacks it: f32[3].
[[nodiscard]] ValueId rowOf(Module&, Builder&, const StackedRows&);

// source[…, index, …]: one row along `dim`, at an index that is in bounds.
struct RowSlice {
  ValueId source, index; // an i32
  int64_t dim = 0;
};
// Nothing unless `reshape` drops the sliced dim of a dynamic_slice of such a row.
[[nodiscard]] std::optional<RowSlice> rowSlice(const Module&, const IndexRanges&, OpId reshape);

// Removes unused ops without effects: those in the blocks of `loops`, and those that compute `starts`.
void dropDead(Module&, std::span<const OpId> loops, std::span<const ValueId> starts);

} // namespace dtc
