#include "recompute/RecomputeCut.h"
#include "analysis/MinimumCut.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include <algorithm>

namespace dtc {

// Prices in femtoseconds: those of the smallest and of the largest values have different positive integers.
static int64_t femtoseconds(double seconds) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::clamp(seconds, 0.0, 100.0) * 1e15));
}

// Of a cheap op: a kernel reads the values that it is computed from and does not write it, and these are kept
// anyway or computed in the same kernel.
static constexpr double kFusedTraffic = 0.02;

RecomputeCut::RecomputeCut(Module& m, const Mesh& mesh, std::span<const OpId> forward,
                           std::span<const ValueId> arguments)
    : m_(m), mesh_(mesh), forward_(forward.begin(), forward.end()),
      values_(arguments.begin(), arguments.end()) {
  for (OpId o : forward_)
    for (uint32_t r = 0; r < m[o].numResults; ++r) values_.push_back(m.result(o, r));
  for (ValueId v : values_) {
    const OpId o = m.definingOp(v);
    const bool always = o.valid() && m[o].numOperands == 0 && isLoadTimeOp(m, o);
    bytes_[v] = always ? 0 : largestBytes(m, m[v].type, mesh).value_or(0);
  }
}

int64_t RecomputeCut::collectivePrice(OpId o) const {
  const auto price = priceOfCollective(m_, o, mesh_, machine_);
  return price ? femtoseconds(price->seconds) : MinimumCut::kInfinite;
}

int64_t RecomputeCut::price(OpId o, const RecomputePrices& prices) {
  const OpRecord& r = m_.record(o);
  if (m_[o].numRegions != 0 || r.sideEffect || r.isCall || r.async != AsyncForm::None)
    return MinimumCut::kInfinite;
  const bool any = prices.scope == RecomputeScope::Any;
  if (r.collective == CollectiveKind::AllGather && !any) return 1;
  if (r.isCollective() && hasGroups(r.collective)) return any ? collectivePrice(o) : MinimumCut::kInfinite;
  const auto work = localWork(m_, o, mesh_);
  if (!work) return MinimumCut::kInfinite;
  // An op of more points than bytes is a contraction or attention, not a map or a reduction.
  const bool cheap = !r.stores && work->flops <= std::max(r.flopsPerPoint, 1.0) * work->bytes;
  if (prices.scope == RecomputeScope::Gathers && work->flops > 0) return MinimumCut::kInfinite;
  if (!cheap) return any ? femtoseconds(work->seconds(machine_)) : MinimumCut::kInfinite;
  const OpWork fused{work->flops, work->bytes * kFusedTraffic};
  return femtoseconds(fused.seconds(machine_));
}

void RecomputeCut::solve(std::span<const ValueId> needed, const RecomputePrices& prices) {
  again_.clear();
  kept_.clear();
  std::unordered_map<ValueId, uint32_t> nodeOf;
  for (ValueId v : values_) nodeOf.emplace(v, static_cast<uint32_t>(nodeOf.size()));
  const auto numValues = static_cast<uint32_t>(values_.size());
  const auto numOps = static_cast<uint32_t>(forward_.size());
  const uint32_t source = numValues + numOps, sink = source + 1;
  MinimumCut cut(sink + 1);
  const auto keep = [&](ValueId v) {
    const auto bytes = static_cast<double>(bytes_.at(v));
    return bytes == 0 ? 0 : femtoseconds(bytes * prices.kept);
  };
  for (ValueId v : values_)
    if (!m_.definingOp(v).valid()) cut.edge(source, nodeOf.at(v), keep(v));
  for (uint32_t i = 0; i < numOps; ++i) {
    const OpId o = forward_[i];
    const int64_t again = price(o, prices);
    cut.edge(source, numValues + i, again);
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      cut.edge(numValues + i, nodeOf.at(m_.result(o, r)), keep(m_.result(o, r)));
    if (again >= MinimumCut::kInfinite) continue;
    for (ValueId v : m_.operands(o))
      if (const auto it = nodeOf.find(v); it != nodeOf.end())
        cut.edge(it->second, numValues + i, MinimumCut::kInfinite);
  }
  for (ValueId v : needed)
    if (const auto it = nodeOf.find(v); it != nodeOf.end()) cut.edge(it->second, sink, MinimumCut::kInfinite);
  cut.maximize(source, sink);
  for (uint32_t i = 0; i < numOps; ++i)
    if (!cut.reached(numValues + i)) again_.insert(forward_[i]);
  findKept(needed);
}

bool RecomputeCut::isUseful(const RecomputePrices& prices) const {
  return prices.scope != RecomputeScope::Gathers || std::ranges::any_of(again_, [&](OpId o) {
           return m_.record(o).collective == CollectiveKind::AllGather;
         });
}

// A value without a price is on the sink side even if nothing needs it.
void RecomputeCut::findKept(std::span<const ValueId> needed) {
  std::unordered_set<ValueId> seen;
  std::vector<ValueId> next(needed.begin(), needed.end());
  while (!next.empty()) {
    const ValueId v = next.back();
    next.pop_back();
    if (!bytes_.contains(v) || !seen.insert(v).second) continue;
    if (const OpId o = m_.definingOp(v); o.valid() && isAgain(o))
      next.insert(next.end(), m_.operands(o).begin(), m_.operands(o).end());
  }
  for (ValueId v : values_)
    if (const OpId o = m_.definingOp(v); seen.contains(v) && !(o.valid() && isAgain(o))) kept_.push_back(v);
}

} // namespace dtc
