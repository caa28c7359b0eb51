#include "report/NominalSizes.h"

#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Checked.h"

namespace dtc {

TypeId nominalType(Module& m, TypeId type) {
  Type t = m.types[type];
  for (Dim& d : t.dims) {
    if (d.isStatic()) continue;
    DimExpr e = m.dims.expr(d);
    if (!e.axes.empty()) return {};
    for (size_t s = 0; s < e.symbols.size(); ++s) {
      const auto size = checkedMul(e.coefficient, kNominalSymbol);
      if (!size) return {};
      e.coefficient = *size;
    }
    e.symbols.clear();
    d = m.dims.intern(std::move(e));
    if (!d.isStatic()) return {};
  }
  return t.numElements() ? m.types.intern(std::move(t)) : TypeId();
}

} // namespace dtc
