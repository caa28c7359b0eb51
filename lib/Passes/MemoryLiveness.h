#pragma once
// When each value of a scheduled function lives, and which values share a buffer (private to lib/Passes). One walk over the
// function, then merges, each as cheap as the lists of the two buffers' lives are short.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/PlanMemory.h"

namespace dtc {

class MemoryLiveness {
public:
  MemoryLiveness(const Module& m, FuncId f, Diagnostics& diags, uint32_t inFlight);
  // The plan with all but the places. Nothing, with diagnostics, where a size is not bound.
  [[nodiscard]] std::optional<MemoryPlan> run(bool reuse);

private:
  using Range = MemoryPlan::Range;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Local { // one value that has a buffer
    ValueId value;
    Range live;
    int64_t bytes = 0;
    bool always = false;    // from the start to the end
    uint32_t parent = 0;    // union-find: the values of one buffer
    std::vector<Range> set; // of a root: when its buffer lives
  };
  // A copy of `from` to the buffer of `to` at a position; nothing is copied where they share one.
  struct Copy {
    uint32_t from, to, at;
  };
  struct Loop { // that is being walked
    uint32_t begin;
    std::vector<uint32_t> used; // values from before it that it reads
  };

  uint32_t tick() { return plan_.numPositions++; }
  [[nodiscard]] uint32_t local(ValueId v) const { return localOf_[v.index]; }
  bool make(ValueId v, uint32_t position);
  void use(ValueId v, uint32_t position);
  void extend(ValueId v, uint32_t position);
  void begin(OpId collective, uint32_t position);
  void land(OpId by, uint32_t position);
  void occupy(ValueId v, Range when); // the value's buffer is taken then, whoever reads it
  void share(ValueId a, ValueId b);
  bool block(BlockId b);
  bool op(OpId o);
  bool cond(OpId o);
  bool loop(OpId o, RegionKind kind);
  bool arguments();
  void results();
  void unite(uint32_t a, uint32_t b);
  [[nodiscard]] uint32_t find(uint32_t a);
  void buildSets();
  void mergeAll();
  void mergeInPlace(OpId o);
  [[nodiscard]] bool mayMerge(uint32_t a, uint32_t b, uint32_t copiedAt);
  [[nodiscard]] bool writesInPlace(uint32_t dying, uint32_t born, uint32_t position);
  void finish(bool reuse);

  const Module& m_;
  FuncId func_;
  Mesh mesh_;
  Diagnostics& diags_;
  uint32_t inFlight_; // makeMemoryPlan()
  // Collectives whose results nobody has read yet: by them, and by what only gives these another shape.
  struct Flight {
    OpId collective;
    uint32_t begun = 0;
  };
  std::unordered_map<OpId, Flight> flights_;
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
