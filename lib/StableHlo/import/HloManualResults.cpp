#include "import/HloManualResults.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/IR/infer/Varying.h"
#include "dtc/Import/rows/Shapes.h"
#include "dtc/Ops/OpName.h"

namespace dtc {

// The axes over which a result is a pending sum.
static AxisSet summed(const Module& m, const Varying& varying, ValueId result) {
  AxisSet axes = 0;
  for (const PendingAxis& p : m.shardings[m[result].sharding].pending)
    if (p.kind == PendingKind::Sum) axes |= varying.ofAxis(p.axis);
  return axes;
}

// A value that is equal on all devices as one of which each device has its own: an addend of a sum.
static ValueId ownOf(Expr x, const Varying& varying, AxisSet axes) {
  Builder& b = x.builder();
  Dims stacked = x.dims();
  stacked.insert(stacked.begin(), Dim(varying.sizeOf(axes)));
  const AttrList attrs{{b.module.strings.intern("axes"), axesAttr(b.module, varying.axes(axes))},
                       {b.module.strings.intern("dim"), b.integer(0)}};
  const ValueId operand = broadcastTo(withDim(x, 0), stacked);
  const OpId slice = b.op(b.module.registry->find(OpName("all_slice")), std::array{operand}, attrs);
  return withoutDim(Expr(b, b.module.result(slice)), 0);
}

static void agreeOnResults(Module& m, OpId local, Diagnostics& diags) {
  const Varying varying(m, local);
  const BlockId body = m.region(local);
  std::vector<OpId> ops(m[body].ops.begin(), m[body].ops.end());
  Builder b(m, body, ops, diags);
  b.loc = m[local].loc;
  b.mesh = varying.mesh();
  for (uint32_t r = 0; r < m[local].numResults && r < m[body].yields.size(); ++r) {
    const ValueId v = m[body].yields[r];
    if (const AxisSet same = summed(m, varying, m.result(local, r)) & ~varying(v)) {
      m[body].yields[r] = ownOf(Expr(b, v), varying, same);
      continue;
    }
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
