#pragma once
// Rewrites one function: the backward part computes values of the forward part again.
#include "analysis/Reads.h"
#include "dtc/Passes/analysis/Clone.h"
#include "recompute/RecomputeCut.h"

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
// Writes clones of ops that are computed again, each once, before its first reader.
class Again {
public:
  // `copies`: where the backward part has a value already.
  Again(Module& m, BlockId parent, const RecomputeCut& cut, ValueMap copies)
      : m_(m), parent_(parent), cut_(cut), copies_(std::move(copies)) {}
  // The value in the backward part; ops that it needs are appended to `out`.
  ValueId value(ValueId v, std::vector<OpId>& out);
  [[nodiscard]] size_t count() const { return done_.size(); }

private:
  Module& m_;
  BlockId parent_;
  const RecomputeCut& cut_;
  ValueMap copies_;
  std::unordered_set<OpId> done_;
};

// Removes ops without effect whose results are not read.
void removeUnread(Module&, BlockId);

} // namespace dtc
