#include "dtc/Check/run/CommRounding.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Runtime/comm/Collective.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

CommRounding::CommRounding(Module& m, FuncId f, int64_t runs) : m_(m), func_(f), runs_(runs) {
  const Mesh mesh = meshValueOf(m, f);
  const auto note = [&](OpId op) {
    const CollectiveKind kind = m.record(op).collective;
    if (!hasGroups(kind)) return;
    auto spec = collectiveSpec(m, op, mesh);
    if (!spec || !isFloat(spec->commDType)) return;
    const bool narrows = isFloat(spec->dtype) && !holdsAll(spec->commDType, spec->dtype);
    const int64_t hops = (reduces(kind) ? mesh.sizeOf(spec->axes) - 1 : 0) + (narrows ? 1 : 0);
    if (hops) at_[op] = {hops, spec->commDType};
  };
  for (FuncId part : functionsOfProgram(m, f)) forEachOp(m, m[part].body, note);
}

CompareOptions CommRounding::of(ValueId v) const {
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
      auto known = std::ranges::find(options.commHops, at->second.dtype, &CommHops::dtype);
      if (known == options.commHops.end()) known = options.commHops.insert(known, {0, at->second.dtype});
      known->hops += at->second.hops * runs_;
    }
    for (ValueId read : m_.operands(o)) add(m_.definingOp(read));
    // A result of a block may depend on all of its contents.
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) forEachOp(m_, m_.region(o, r), add);
  }
  return options;
}

const CommHops* CommRounding::hopsOf(OpId op) const {
  const auto found = at_.find(op);
  return found == at_.end() ? nullptr : &found->second;
}

std::vector<CompareOptions> CommRounding::ofResults() const {
  std::vector<CompareOptions> all(m_[func_].results.size());
  for (FuncId part : functionsOfProgram(m_, func_))
    for (size_t r = 0; r < all.size(); ++r)
      for (const CommHops& hops : of(m_[m_[part].body].yields[r]).commHops) {
        auto known = std::ranges::find(all[r].commHops, hops.dtype, &CommHops::dtype);
        if (known == all[r].commHops.end()) known = all[r].commHops.insert(known, hops);
        known->hops = std::max(known->hops, hops.hops);
      }
  return all;
}

} // namespace dtc
