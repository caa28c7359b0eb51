#include "import/HloManualResults.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/IR/infer/Varying.h"
#include "dtc/Ops/OpName.h"

namespace dtc {

static void agreeOnResults(Module& m, OpId local, Diagnostics& diags) {
  const Varying varying(m, local);
  const BlockId body = m.region(local);
  std::vector<OpId> ops(m[body].ops.begin(), m[body].ops.end());
  Builder b(m, body, ops, diags);
  b.loc = m[local].loc;
  b.mesh = varying.mesh();
  for (uint32_t r = 0; r < m[local].numResults && r < m[body].yields.size(); ++r) {
    const ValueId v = m[body].yields[r];
    const AxisSet differs = varying(v) & ~varying.ofSharding(m[m.result(local, r)].sharding);
    if (!differs) continue;
    const AttrList attrs{{m.strings.intern("axes"), axesAttr(m, varying.axes(differs))}};
    const OpId o = b.op(m.registry->find(OpName("broadcast_from")), std::array{v}, attrs);
    m[body].yields[r] = m.result(o, 0);
  }
  m[body].ops.assign(ops.begin(), ops.end());
}

void agreeOnResults(Module& m, Diagnostics& diags) {
  std::vector<OpId> locals;
  for (FuncId f : m.order)
    if (m[f].body.valid())
      forEachOp(m, m[f].body, [&](OpId o) {
        if (m.record(o).regions == RegionKind::Local) locals.push_back(o);
      });
  for (OpId o : locals) agreeOnResults(m, o, diags);
}

} // namespace dtc
