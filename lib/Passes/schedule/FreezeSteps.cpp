#include "schedule/FreezeSteps.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {
// What fits into the limit is marked. A view of a frozen value is not executed, but a step may read it.
void freezeSteps(Module& m, FuncId f) {
  FrozenValues frozen(m, f);
  const Mesh mesh = meshValueOf(m, f);
  const std::vector<OpId>& ops = m[m[f].body].ops;
  int64_t left = frozenLimit(m, f);
  for (OpId o : ops)
    if (isFrozenOp(m, o)) left -= resultBytes(m, o, mesh).value_or(0);
  const StrId microbatch = m.strings.find("microbatch");
  for (OpId o : ops) {
    if (isLoadTimeOp(m, o) || isFrozenOp(m, o) || (isViewRegion(m, o) && frozen.computes(o))) {
      frozen.add(o);
      continue;
    }
    if (m.record(o).regions != RegionKind::Fused || !frozen.computes(o)) continue;
    if (microbatch.valid() && findAttr(m[o].attrs, microbatch).valid()) continue;
    const auto bytes = resultBytes(m, o, mesh);
    if (!bytes || *bytes > left) continue;
    left -= *bytes;
    frozen.add(o);
    setFrozen(m, o);
  }
}

void putFrozenFirst(Module& m, FuncId f) {
  std::vector<OpId>& ops = m[m[f].body].ops;
  std::unordered_set<OpId> first; // the marked ones, and what they read
  for (size_t i = ops.size(); i-- > 0;) {
    if (!isFrozenOp(m, ops[i]) && !first.contains(ops[i])) continue;
    first.insert(ops[i]);
    for (ValueId v : m.operands(ops[i]))
      if (const OpId by = m.definingOp(v); by.valid()) first.insert(by);
  }
  std::vector<OpId> ordered;
  for (const bool wanted : {true, false})
    std::ranges::copy_if(ops, std::back_inserter(ordered),
                         [&](OpId o) { return first.contains(o) == wanted; });
  ops = std::move(ordered);
}

} // namespace dtc
