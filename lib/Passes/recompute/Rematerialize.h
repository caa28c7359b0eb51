#pragma once
// Rewrites one function: the backward part computes values of the forward part again.
#include "analysis/Reads.h"
#include "dtc/Passes/analysis/Clone.h"
#include "recompute/RecomputeCut.h"

#include <map>

namespace dtc {

// Counts of what a rewrite did.
struct Rematerialized {
  size_t ops = 0;        // computed again
  int64_t keptBytes = 0; // of values that are kept, on one device
};

// Pairs of a `for` and a later `for` that reads rows of its stacked results (the loops of a gradient).
// Adds their loops to `pairs`.
void rematerializeLoops(Module&, BlockId, const Mesh&, const RecomputePrices&, Rematerialized&,
                        std::unordered_set<OpId>& pairs);
// The ops of a block before and after the point with the most live bytes.
void rematerializeBlock(Module&, BlockId, const Mesh&, const RecomputePrices&, Rematerialized&);

// --- shared ---
// The stage of a pipeline, as the text numbers them, that computes each op of a block: its mark, or else that of its
// largest operand.
class OpStages {
public:
  static constexpr int kNone = -1;
  OpStages(const Module& m, BlockId block, const Mesh& mesh);
  [[nodiscard]] int operator()(OpId o) const {
    const auto it = of_.find(o);
    return it == of_.end() ? kNone : it->second;
  }

private:
  std::unordered_map<OpId, int> of_; // empty: a text without stages
};

// Writes clones of ops that are computed again, each once, before its first reader; in a pipeline, once in each stage
// that reads it: the backward part of a later stage runs before that of an earlier one.
class Again {
public:
  // `copies`: where the backward part has a value already.
  Again(Module& m, BlockId parent, const RecomputeCut& cut, ValueMap copies, const OpStages* stages = nullptr)
      : m_(m), parent_(parent), cut_(cut), given_(std::move(copies)), stages_(stages) {}
  // The value in the backward part of a stage; ops that it needs are appended to `out`.
  ValueId value(ValueId v, std::vector<OpId>& out, int stage = OpStages::kNone);
  [[nodiscard]] size_t count() const { return made_; }

private:
  Module& m_;
  BlockId parent_;
  const RecomputeCut& cut_;
  ValueMap given_;
  const OpStages* stages_;
  struct Stage {
    ValueMap copies;
    std::unordered_set<OpId> done;
  };
  std::map<int, Stage> stagesDone_;
  size_t made_ = 0;
};

// Removes ops without effect whose results are not read.
void removeUnread(Module&, BlockId);

} // namespace dtc
