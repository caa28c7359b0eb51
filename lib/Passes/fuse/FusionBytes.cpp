// Decisions by bytes after grouping: recomputation, and horizontal fusion of small groups.
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

// A launch costs about as much as some thousand elements, and a kernel with few rows leaves cores idle.
// Larger groups are not fused horizontally: they gain nothing, and their operands and results would be live
// at the same time.
void joinSmall(FusionGroups& fusion) {
  constexpr int64_t kSmallElements = 1 << 14;
  constexpr size_t kMaxAxes =
      32; // each adds loops of its own, and the number of axes of a kernel is limited (LoopIr.h)
  std::unordered_map<int64_t, std::pair<uint32_t, size_t>>
      open; // by level: the group that others join, and its axes
  for (uint32_t g = 0; g < fusion.numGroups(); ++g) {
    const FusionGroup& group = fusion.group(g);
    if (!group.fusible || group.closed || group.rows || group.ops.empty() || group.kind != "pointwise" ||
        !group.elements.sizes.empty() || group.elements.number > kSmallElements ||
        (group.ops.size() == 1 && fusion.at(group.ops[0]).again))
      continue;
    size_t axes = 0;
    for (OpId o : group.ops)
      for (uint32_t r = 0; r < fusion.m[o].numResults; ++r)
        axes = std::max(axes, fusion.m.typeOf(fusion.m.result(o, r)).rank());
    auto [it, first] = open.try_emplace(group.level, g, axes);
    if (first) continue;
    auto& [into, taken] = it->second;
    if (taken + axes > kMaxAxes || fusion.group(into).ops.size() + group.ops.size() > fusion.limit) {
      it->second = {g, axes};
      continue;
    }
    fusion.merge(into, g);
    taken += axes;
  }
}

} // namespace dtc
