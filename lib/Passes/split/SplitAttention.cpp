// Splits attention over its keys.
#include "split/SplitAttention.h"
#include "analysis/Within.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {
static void splitIn(Module& m, BlockId block, ValueMap& map, Diagnostics& diags) {
  std::vector<OpId> out;
  Builder b(m, block, out, diags);
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    for (size_t i = 0; i < m[o].numOperands; ++i) m.operands(o)[i] = map(m.operand(o, i));
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      if (m.record(o).regions != RegionKind::Fused) splitIn(m, m.region(o, r), map, diags);
    b.loc = m[o].loc;
    b.common = inheritedAttrs(m, o);
    std::vector<ValueId> values;
    if (attentionForm(m.record(o)) != AttentionForm::Whole || !splitAttentionKeys(b, o, values)) {
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

void splitAttention(Module& m, BlockId block, Diagnostics& diags) {
  ValueMap map;
  splitIn(m, block, map, diags);
}

} // namespace dtc
