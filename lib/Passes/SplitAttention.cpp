// Before ops are grouped: attention over parts of its keys.
#include "SplitAttention.h"
#include "Within.h"
#include "dtc/Ops/AttentionKeys.h"
#include "dtc/Passes/Clone.h"

namespace dtc {
namespace {

void splitIn(Module& m, BlockId block, OpKind kind, ValueMap& map, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (size_t i = 0; i < m[o].numOperands; ++i) m.operands(o)[i] = map(m.operand(o, i));
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused) splitIn(m, m.region(o, r), kind, map, diags);
    b.loc = m[o].loc;
    b.common = withinOf(m, o);
    std::vector<ValueId> values;
    if (m[o].kind != kind || !splitAttentionKeys(b, o, values)) {
      out.push_back(o);
      continue;
    }
    for (uint32_t r = 0; r < m[o].numResults; ++r) {
      const ValueId result = m.result(o, r);
      if (!m[values[r]].name.valid()) m[values[r]].name = m[result].name;
      map.set(result, values[r]);
    }
  }
  m[block].ops = std::move(out);
  for (ValueId& v : m[block].yields) v = map(v);
}

} // namespace

void splitAttention(Module& m, BlockId block, Diagnostics& diags) {
  ValueMap map;
  splitIn(m, block, m.registry->find("attention"), map, diags);
}

} // namespace dtc
