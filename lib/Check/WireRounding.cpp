#include "dtc/Check/WireRounding.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Runtime/Collective.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

WireRounding::WireRounding(Module& m, FuncId f, int64_t runs) : m_(m), func_(f), runs_(runs) {
  const Mesh mesh = meshValueOf(m, f);
  forEachOp(m, m[f].body, [&](OpId op) {
    const auto kind = parseCollectiveKind(m.record(op).name);
    if (!m.record(op).isCollective() || !kind) return;
    auto spec = collectiveSpec(m, op, mesh);
    if (!spec || !isFloat(spec->wire)) return;
    const bool reduces = *kind == CollectiveKind::AllReduce || *kind == CollectiveKind::ReduceScatter;
    const bool narrows = isFloat(spec->dtype) && !holdsAll(spec->wire, spec->dtype);
    const int64_t hops = (reduces ? mesh.sizeOf(spec->axes) - 1 : 0) + (narrows ? 1 : 0);
    if (hops) at_[op] = {hops, spec->wire};
  });
}

CompareOptions WireRounding::of(ValueId v) const {
  CompareOptions options;
  std::unordered_set<OpId> seen;
  std::vector<OpId> open;
  auto add = [&](OpId o) {
    if (o.valid() && seen.insert(o).second) open.push_back(o);
  };
  add(m_.definingOp(v));
  while (!open.empty()) {
    const OpId o = open.back();
    open.pop_back();
    if (auto at = at_.find(o); at != at_.end()) {
      auto known = std::ranges::find(options.wire, at->second.dtype, &WireHops::dtype);
      if (known == options.wire.end()) known = options.wire.insert(known, {0, at->second.dtype});
      known->hops += at->second.hops * runs_;
    }
    for (ValueId read : m_.operands(o)) add(m_.definingOp(read));
    // What a block gives may depend on all that is in it.
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) forEachOp(m_, m_.region(o, r), add);
  }
  return options;
}

const WireHops* WireRounding::hopsOf(OpId op) const {
  const auto found = at_.find(op);
  return found == at_.end() ? nullptr : &found->second;
}

std::vector<CompareOptions> WireRounding::ofResults() const {
  std::vector<CompareOptions> all;
  for (ValueId v : m_[m_[func_].body].yields) all.push_back(of(v));
  return all;
}

} // namespace dtc
