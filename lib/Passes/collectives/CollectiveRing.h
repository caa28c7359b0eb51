#pragma once
// A collective matmul as a ring: which ops it replaces, its price, and its text (CollectiveMatmul.h).
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/collectives/CollectiveMatmul.h"
#include "dtc/Sharding/Rule.h"
#include <optional>

namespace dtc {

// A contraction that is done in chunks of one factor.
struct RingProduct {
  OpId op;
  std::vector<int> dims;     // by operand: the dim of the factor, or -1
  std::vector<bool> travels; // by operand: the gathered value, whose chunks arrive
  int resultDim = -1;        // of the factor; -1: it is contracted, and the chunks' products are added up
};

struct RingPlan {
  CollectiveKind kind = CollectiveKind::None; // AllGather or ReduceScatter
  OpId collective;
  std::vector<AxisRef> axes;
  int64_t devices = 0;
  int64_t chunk = 0;                 // elements of one device along the dim
  size_t dim = 0;                    // of the gathered or scattered value
  std::vector<RingProduct> products; // in program order
  std::vector<OpId> adds;            // of products before a reduce_scatter
  // The ops at these positions of the block (inclusive) in their new order, without those that the ring
  // replaces; an invalid id is the ring.
  size_t first = 0, last = 0;
  std::vector<OpId> order;
};

// Finds the rings of a block. Values and positions are those of the block as it is now.
class RingFinder {
public:
  RingFinder(Module& m, BlockId block, const Mesh& mesh, bool fixedOrder);

  // Nothing if the collective is not followed or preceded by contractions alone, or if chunks are not equal.
  [[nodiscard]] std::optional<RingPlan> find(OpId collective);

private:
  [[nodiscard]] std::optional<RingPlan> start(OpId collective);
  bool gather(RingPlan&);
  bool scatter(RingPlan&);
  // The contraction in chunks; `gathered` is invalid before a reduce_scatter.
  std::optional<RingProduct> product(OpId, ValueId gathered, const RingPlan&);
  [[nodiscard]] bool sumsInChunks(const Rule&, size_t factor, OpId) const;
  void addRead(ValueId, OpId reader);
  bool collect(ValueId v, TypeId type, RingPlan&);
  bool orderGather(RingPlan&);
  void orderScatter(RingPlan&);

  Module& m_;
  BlockId block_;
  const Mesh& mesh_;
  bool fixedOrder_;
  std::vector<size_t> at_;     // by op: its position in the block
  std::vector<uint32_t> uses_; // by value: its reads in the block and its regions
  // By result of an all_gather: the ops of the block that read it; for a yield, an invalid id.
  std::unordered_map<ValueId, std::vector<OpId>> readers_;
};

// Calls f(value) for each operand of the op and of the ops in its blocks, and each yielded value.
template <class F> void forEachRead(const Module& m, OpId o, const F& f) {
  for (ValueId v : m.operands(o)) f(v);
  for (uint32_t r = 0; r < m[o].numRegions; ++r) {
    for (OpId inner : m[m.region(o, r)].ops) forEachRead(m, inner, f);
    for (ValueId v : m[m.region(o, r)].yields) f(v);
  }
}

// Whether the op is a contraction by an index rule: matmul, einsum, linear.
[[nodiscard]] bool isContraction(const Module&, OpId);

// Estimates the time of a stretch of the block with and without the ring.
class RingPricer {
public:
  RingPricer(Module& m, const Mesh& mesh, const RingMachine& machine)
      : m_(m), mesh_(mesh), machine_(machine) {}
  [[nodiscard]] RingTimes price(BlockId, const RingPlan&);
  // Of all of a block, with its regions.
  [[nodiscard]] OverlapTime timeOf(BlockId);

private:
  struct Window;
  double seconds(OpId);
  double computeSeconds(OpId);
  double copySeconds(double bytes) const;
  double bytesOf(ValueId) const;

  Module& m_;
  const Mesh& mesh_;
  const RingMachine& machine_;
  std::vector<double> known_; // by op: its seconds; -1: not yet
  // By value: the task that makes it in the window with this number.
  struct Maker {
    uint32_t window = 0, task = 0;
  };
  std::vector<Maker> makers_;
  uint32_t windows_ = 0;
};

// Replaces the ops of the plan by the ring.
void writeRing(Module&, BlockId, MeshId, const RingPlan&, Diagnostics&);

} // namespace dtc
