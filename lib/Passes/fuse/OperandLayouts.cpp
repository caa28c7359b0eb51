#include "fuse/OperandLayouts.h"
#include <numeric>

namespace dtc {

DimOrder inverse(const DimOrder& order) {
  DimOrder out(order.size());
  for (size_t d = 0; d < order.size(); ++d) out[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return out;
}

TransposedValue throughTransposes(const Module& m, FusionForms& forms, const OperandLayouts& layouts,
                                  const std::unordered_set<uint32_t>& here, ValueId v) {
  DimOrder dims(m.typeOf(v).rank());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  while (m[v].kind == ValueKind::OpResult) {
    const OpId o(m[v].owner);
    if (!here.contains(o.index) || layouts.stored.contains(o.index)) break;
    const auto from = permutationOf(forms.of(o));
    if (!from) break;
    for (int64_t& d : dims) d = static_cast<int64_t>((*from)[static_cast<size_t>(d)]);
    v = m.operand(o, 0);
  }
  return {v, dims, inverse(dims)};
}

} // namespace dtc
