#pragma once
// The grouping of a block's ops into regions. Greedy, in program order, near linear: an op joins the groups
// that produce its operands if the merged kernel is still one pass over the same rows, and no path between
// them leads outside. Values flow from lower levels to higher ones only, so that groups cannot form a cycle;
// groups of one level are independent, so that small ones (the updates of many weights) fuse horizontally.
#include "analysis/ByValue.h"
#include "analysis/FusionForm.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "fuse/OperandLayouts.h"

namespace dtc {

// The number of elements: a static factor times symbolic sizes.
struct ElementCount {
  int64_t number = 1;
  std::vector<int64_t> sizes; // sorted dims of the table
  friend bool operator==(const ElementCount&, const ElementCount&) = default;
};

// The part of a micro-batch that an op belongs to, in the program of a pipeline's device: ops of different parts run at
// different times, and do not share a kernel. Ids of the attributes; invalid outside of pipelines. The same holds for ops
// that run once (freeze).
struct FusionSlot {
  AttrId microbatch, phase, stage;
  bool frozen = false;
  friend bool operator==(const FusionSlot&, const FusionSlot&) = default;
};

// Of the attributes that place an op in a pipeline.
[[nodiscard]] inline bool isSlotAttr(std::string_view name) {
  return name == "stage" || name == "phase" || name == "microbatch" || name == "frozen";
}

struct FusionGroup {
  std::vector<OpId> ops; // in program order, without data-movement ops that readers fold
  bool fusible = false;  // false: a single op, unchanged
  bool closed = false;   // fuses only a data-movement op on its result: contractions, copies
  std::string_view kind;
  int64_t level = 0;
  int64_t minUser = INT64_MAX; // the min level of its readers outside
  OpId placedAt;               // its kernel runs where this op is; invalid: where the first op is
  bool rows = false;           // has reductions, of values of this shape along these dims
  std::vector<Dim> full;
  std::vector<bool> reduced;
  std::vector<Dim> parted;       // has column reductions, of values of this shape with the rows in parts
  std::vector<bool> partReduced; // the reduced dims of that shape
  ElementCount elements;         // of its largest values
  FusionSlot slot;
};

// A value passed between kernels through memory, and the reason.
struct MaterializedValue {
  OpId reader;
  ValueId value;
  std::string_view why;
};

// The processed ops that read a value: a linked list in GroupOps.cpp, as indices + 1.
struct RowReaders {
  uint32_t first = 0, last = 0;
};

// Shared by the blocks of a function, so that its size is paid once.
struct FusionTables {
  FusionForms forms;
  // A library multiplies matrices with a call for each index of a dim that is neither a matrix nor a batch dim.
  bool callsPerIndex = false;
  // A kernel with its own store order writes each element once, so that it can compute what it begins with.
  bool writesOnce = false;
  // Attention reads q, k and v and writes its result in any layout of rows of contiguous elements, not in others.
  bool attentionRows = false;
  bool epilogues = false; // a library adds a matrix to a matmul
  bool gelu = false;      // and multiplies it by gelu's derivative
  // An op with more contractions between it and a group runs by itself; 0: any may join.
  uint32_t distance = 0;
  // Small kernels wait for others to share a launch with; their operands are at most these bytes in total. 0: none
  // waits.
  int64_t waitingBytes = 0;
  bool fixedOrder = false; // --reduction-order fixed, which is why the limit is 1
  OperandLayouts layouts;
  std::vector<uint32_t> positions; // by op: its position in its block; arbitrary for ops of other blocks
  // By value:
  ScratchMap<uint32_t> uses;         // in the block that is grouped
  ScratchMap<RowReaders> rowReaders; // of OpGrouper
  std::vector<bool> read;            // from memory
  ScratchMap<bool> needed;           // in the group that is emitted
  ScratchMap<ValueId> moved;         // of the group that is emitted: what is written instead
  ScratchMap<ValueId> copies;        // in the region under construction
};

// The values that an op reads, including its regions.
class ValuesRead {
public:
  ValuesRead(const Module& m, OpId o);
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

private:
  std::vector<ValueId> own_; // if it has regions
  std::span<const ValueId> all_;
};

// What the grouping has decided about an op of the block.
struct FusionOp {
  const FusionForm* form = nullptr;
  int32_t group = -1;
  // When a data-movement op got a group of its own: later readers take it from memory.
  int64_t stored = INT64_MAX;
  int64_t placed = 0; // when the op was processed
  uint32_t calls = 0; // the number of contractions before it
  // a data-movement op that all readers take from memory: its producer writes it in this layout
  bool chosen = false;
  bool again = false;     // recomputed by the kernels that read it
  bool unaligned = false; // its layout differs from its group's rows
};

// The source of the folded data-movement ops that lead to a value; `aligned`: none of them changes the order
// of dims; `near`: full factors only.
struct FusionSource {
  ValueId value;
  bool aligned = true, near = true, moved = false;
};

struct FusionReading {
  OpId reader;
  bool moved; // through data-movement ops that the reader folds
};
using FusionReadings = ByValue<FusionReading>;

// The ops of a block and their groups. FusionSteps.h has the steps that form the groups.
class FusionGroups {
public:
  FusionGroups(Module& module, BlockId ofBlock, size_t opLimit, FusionTables& tables);

  Module& m;
  const BlockId block;
  const size_t limit; // of ops in a group
  FusionForms& forms;
  ScratchMap<uint32_t>& uses; // FusionTables::uses
  const bool writesOnce;      // FusionTables::writesOnce
  const bool attentionRows;   // FusionTables::attentionRows
  const bool epilogues, gelu; // FusionTables
  const uint32_t distance;
  const int64_t waitingBytes; // FusionTables
  const bool fixedOrder;
  const OperandLayouts& layouts;

  // The state of an op, or null if it is not in this block.
  [[nodiscard]] const FusionOp* find(OpId o) const {
    const uint32_t at = o.index < positions_.size() ? positions_[o.index] : ~0u;
    return at < ops_.size() && m[block].ops[at] == o ? &ops_[at] : nullptr;
  }
  // The same for an op of this block.
  [[nodiscard]] uint32_t position(OpId o) const { return positions_[o.index]; }
  [[nodiscard]] const FusionOp& at(OpId o) const { return ops_[position(o)]; }
  [[nodiscard]] FusionOp& at(OpId o) { return ops_[position(o)]; }
  [[nodiscard]] const FusionForm& formOf(OpId o) const { return *at(o).form; }
  [[nodiscard]] FusionOp* stateOf(ValueId v); // of its producer, or null
  [[nodiscard]] const FusionOp* stateOf(ValueId v) const;
  [[nodiscard]] FusionSource sourceOf(ValueId v) const;
  [[nodiscard]] int groupOf(ValueId v) const; // -1: none
  [[nodiscard]] int sourceGroup(ValueId v) const { return groupOf(sourceOf(v).value); }
  [[nodiscard]] int64_t levelOf(ValueId v) const; // the min level of a reader, minus 1; -1: none
  [[nodiscard]] ValuesRead valuesReadBy(OpId o) const { return {m, o}; }
  // Calls fn(v, moved, folded) for each value that the op reads, and the sources of the ops that it folds.
  template <class Fn> void forEachRead(OpId o, Fn&& fn) const {
    std::vector<std::pair<ValueId, bool>> work;
    for (ValueId v : valuesReadBy(o)) work.push_back({v, false});
    while (!work.empty()) {
      const auto [v, moved] = work.back();
      work.pop_back();
      const bool folded = m[v].kind == ValueKind::OpResult && folds(o, OpId(m[v].owner));
      fn(v, moved, folded);
      if (!folded) continue;
      for (ValueId next : m.operands(OpId(m[v].owner))) work.push_back({next, true});
    }
  }
  [[nodiscard]] FusionReadings readings() const;
  // True if the group of `reader` folds the value of this op instead of reading it from memory.
  [[nodiscard]] bool folds(OpId reader, OpId op) const;

  [[nodiscard]] uint32_t numGroups() const { return static_cast<uint32_t>(groups_.size()); }
  [[nodiscard]] const FusionGroup& group(int64_t g) const { return groups_[static_cast<size_t>(g)]; }
  [[nodiscard]] FusionGroup& group(int64_t g) { return groups_[static_cast<size_t>(g)]; }
  // The op at whose position the group's kernel runs, unless a kernel before reads its results.
  [[nodiscard]] OpId placeOf(const FusionGroup& g) const {
    return g.placedAt.valid() ? g.placedAt : g.ops.front();
  }
  [[nodiscard]] std::vector<uint32_t> order() const; // topological
  // The values that one kernel writes and another reads; each pair of ops once.
  [[nodiscard]] std::vector<MaterializedValue> materializedValues() const;
  [[nodiscard]] ElementCount elementsOf(const Type& t) const;
  [[nodiscard]] bool mergeable(const FusionGroup& a, const FusionGroup& b) const;

  // True if so many contractions are between the group and the op that it runs by itself: computed with the group,
  // its result would be kept until it is read (a value that the backward part computes again), or computed with the
  // op, the group's operands (a sum of a gradient at the start and one at the end of the backward part).
  [[nodiscard]] bool isFarBehind(OpId o, uint32_t g) const {
    if (slotOf(o) != groups_[g].slot) return true;
    return distance > 0 && find(o)->calls > find(groups_[g].ops.back())->calls + distance;
  }
  [[nodiscard]] FusionSlot slotOf(OpId o) const {
    if (isFrozenOp(m, o)) return {.frozen = true};
    if (!microbatch_.valid()) return {};
    const AttrId microbatch = findAttr(m[o].attrs, microbatch_);
    if (!microbatch.valid()) return {};
    return {.microbatch = microbatch,
            .phase = findAttr(m[o].attrs, phase_),
            .stage = findAttr(m[o].attrs, stage_)};
  }
  int64_t tick() { return now_++; } // the time of a decision
  uint32_t newGroup(OpId o, bool fusible, std::string_view kind);
  void merge(uint32_t into, uint32_t from);
  void append(uint32_t into, uint32_t from); // the same for independent groups, whose ops stay apart
  void sortOps(FusionGroup& g) const;
  void noteUses(OpId o, int64_t level, uint32_t own);
  void note(OpId o, ValueId v, std::string_view why) { materialized_.push_back({o, v, why}); }
  void store(ValueId v); // a folded data-movement op that must be in memory
  bool joinDataMovement(OpId o, std::string_view& kind);
  void foldInto(OpId matmul, std::vector<OpId> ops) { factors_[matmul.index] = std::move(ops); }

private:
  // True if a library writes the result of the group's matmul into a view of it in one call.
  [[nodiscard]] bool attentionWrites(ValueId result, const StridedView& view) const;
  // How a library's matrix product writes its result.
  struct ProductWalks {
    int64_t batches = 0; // dims of the batch
    bool dense = false;  // its rows or its columns are: the library is slow without either (storeForLibrary)
  };
  [[nodiscard]] std::optional<ProductWalks> walksOf(const FusionGroup& group, const StridedView& view) const;
  [[nodiscard]] bool writesInOneCall(const FusionGroup& group, const StridedView& view) const;

  const StrId microbatch_, phase_, stage_; // the attributes of a slot; invalid if no text has them
  const bool callsPerIndex_;               // FusionTables::callsPerIndex
  std::vector<uint32_t>& positions_;       // FusionTables::positions
  std::vector<FusionOp> ops_;              // by position
  std::vector<FusionGroup> groups_;
  std::unordered_map<uint32_t, std::vector<OpId>> factors_; // by matmul: the ops that it folds (foldFactors)
  int64_t now_ = 0;
  std::vector<MaterializedValue> materialized_; // as decided; some groups were joined later
};

} // namespace dtc
