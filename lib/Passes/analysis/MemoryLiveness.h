#pragma once
// Liveness of the values of a scheduled function, and buffer sharing. One walk over the function, then
// merges, each linear in the live ranges of the two buffers.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

namespace dtc {

class MemoryLiveness {
public:
  // Offsets by value, as in the text.
  using Offsets = std::unordered_map<ValueId, int64_t>;
  MemoryLiveness(const Module& m, FuncId f, Diagnostics& diags);
  // The plan without offsets. Nothing, with diagnostics, if a size is not bound. If offsets are given, values
  // share a buffer only if their offsets are equal.
  [[nodiscard]] std::optional<MemoryPlan> run(bool reuse, const Offsets* written = nullptr);

private:
  using Range = MemoryPlan::Range;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Local { // one value with a buffer
    ValueId value;
    Range live;
    int64_t bytes = 0;
    bool always = false;    // from the start to the end
    uint32_t parent = 0;    // union-find: the values of one buffer
    std::vector<Range> set; // of a root: the live ranges of its buffer
  };
  // A copy of `from` to the buffer of `to` at a position; elided if they share a buffer.
  struct Copy {
    uint32_t from, to, at;
  };
  struct Loop { // the loop being walked
    uint32_t begin;
    std::vector<uint32_t> used; // outer values that it reads
  };

  uint32_t tick() { return plan_.numPositions++; }
  [[nodiscard]] uint32_t local(ValueId v) const { return localOf_[v.index]; }
  bool make(ValueId v, uint32_t position);
  void use(ValueId v, uint32_t position);
  void occupy(ValueId v, Range when); // the value's buffer is occupied in that range, whatever its readers
  void share(ValueId a, ValueId b);
  bool block(BlockId b);
  bool op(OpId o);
  bool cond(OpId o);
  bool loop(OpId o, RegionKind kind);
  bool arguments();
  void results();
  void keepFrozen();
  void unite(uint32_t a, uint32_t b);
  [[nodiscard]] uint32_t find(uint32_t a);
  void buildSets();
  void mergeAll();
  void mergeInPlace(OpId o);
  [[nodiscard]] bool haveDistinctOffsets(uint32_t a, uint32_t b) const;
  [[nodiscard]] bool mayMerge(uint32_t a, uint32_t b, uint32_t copiedAt);
  [[nodiscard]] bool writesInPlace(uint32_t dying, uint32_t born, uint32_t position);
  void finish(bool reuse);

  const Module& m_;
  FuncId func_;
  Mesh mesh_;
  AbsentValues absent_; // take no memory
  Diagnostics& diags_;
  const Offsets* written_ = nullptr;
  MemoryPlan plan_;
  std::vector<uint32_t> localOf_; // by value
  std::vector<Local> locals_;
  std::vector<std::pair<uint32_t, Range>> occupied_;
  std::vector<std::pair<uint32_t, uint32_t>> shared_;
  std::vector<Copy> copies_;
  std::vector<Loop> loops_;
  std::vector<OpId> fused_;
  std::unordered_map<uint32_t, OpId> fusedAt_; // by position
};

} // namespace dtc
