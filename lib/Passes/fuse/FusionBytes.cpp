// Decisions by bytes after grouping: recomputation.
#include "fuse/FusionSteps.h"
#include <algorithm>

namespace dtc {

static bool cheaperAgain(const FusionGroups& fusion, OpId o, std::span<const OpId> readers) {
  const FusionOp& s = fusion.at(o);
  const OpRecord& record = fusion.m.record(o);
  auto bytesOf = [&](ValueId v) { // 0: unknown
    const Type& t = fusion.m.typeOf(v);
    const auto n = t.isStatic() ? t.numElements() : std::nullopt;
    return n ? *n * dtypeBytes(t.dtype) : 0;
  };
  if (s.group < 0 || s.form->move || s.form->reduces || s.form->indexed || !record.scalar ||
      record.flopsPerPoint > 2)
    return false;
  const FusionGroup& own = fusion.group(s.group);
  if (!own.fusible || own.closed) return false;
  int64_t cost = 0;
  for (ValueId v : fusion.m.operands(o)) {
    const Value& value = fusion.m[v];
    if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) continue;
    const FusionOp* made = fusion.stateOf(v); // must be in memory regardless of this op
    if (made && (made->group < 0 || made->group == s.group || made->again)) return false;
    if (bytesOf(v) == 0) return false;
    cost += bytesOf(v);
  }
  int64_t outside = 0, inside = 0;
  for (OpId reader : readers) {
    const int g = fusion.at(reader).group;
    if (g == s.group) {
      ++inside;
      continue;
    }
    if (g < 0 || !fusion.group(g).fusible || fusion.group(g).closed) return false;
    ++outside;
  }
  if (outside == 0 || (inside == 0 && own.ops.size() > 1)) return false;
  const int64_t stored = bytesOf(fusion.m.result(o));
  // The live ranges of its operands grow: they may not be much larger than the values they replace.
  return stored > 0 && cost <= stored + stored / 8 && cost * outside <= stored * (1 + outside);
}

// A value with several reader kernels is stored once and read by each; if each recomputes it, its operands
// are read instead.
void computeAgain(FusionGroups& fusion) {
  ByValue<OpId> all;
  for (OpId o : fusion.m[fusion.block].ops)
    for (ValueId v : fusion.valuesReadBy(o)) all.add(v, o);
  all.group();
  std::vector<ValueId> yields = fusion.m[fusion.block].yields; // stored in any case
  std::ranges::sort(yields);
  for (OpId o : fusion.m[fusion.block].ops) {
    if (fusion.m[o].numResults != 1) continue;
    const ValueId made = fusion.m.result(o);
    if (std::ranges::binary_search(yields, made)) continue;
    const std::span<const OpId> readers = all.of(made);
    if (!readers.empty() && cheaperAgain(fusion, o, readers)) fusion.at(o).again = true;
  }
}

} // namespace dtc
