// What the bytes decide once the groups stand: what is computed twice, and which small groups become one.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

// A value that other kernels read is stored once and read by each; computed by each, its operands are read instead.
void FusionGroups::computeAgain() {
  std::unordered_map<uint32_t, std::vector<OpId>> readers; // by value
  for (OpId o : m_[block_].ops)
    for (ValueId v : valuesReadBy(o)) readers[v.index].push_back(o);
  for (ValueId v : m_[block_].yields) readers.erase(v.index); // stored in any case
  for (OpId o : m_[block_].ops) {
    if (m_[o].numResults != 1) continue;
    auto it = readers.find(m_.result(o).index);
    if (it != readers.end() && cheaperAgain(o, it->second)) state_[o.index].again = true;
  }
}

bool FusionGroups::cheaperAgain(OpId o, const std::vector<OpId>& readers) const {
  const OpState& s = state_.at(o.index);
  const OpRecord& record = m_.record(o);
  auto bytesOf = [&](ValueId v) { // 0: not known
    const Type& t = m_.typeOf(v);
    const auto n = t.isStatic() ? t.numElements() : std::nullopt;
    return n ? *n * dtypeBytes(t.dtype) : 0;
  };
  if (s.group < 0 || s.form.move || s.form.reduces || s.form.indexed || !record.scalar ||
      record.flopsPerPoint > 2)
    return false;
  const FusionGroup& own = groups_[static_cast<size_t>(s.group)];
  if (!own.fusible || own.closed) return false;
  int64_t cost = 0;
  for (ValueId v : m_.operands(o)) {
    const Value& value = m_[v];
    if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) continue;
    const OpState* made = stateOf(v); // it must lie in memory whatever becomes of this op
    if (made && (made->group < 0 || made->group == s.group || made->again)) return false;
    if (bytesOf(v) == 0) return false;
    cost += bytesOf(v);
  }
  int64_t outside = 0, inside = 0;
  for (OpId reader : readers) {
    const int g = state_.at(reader.index).group;
    if (g == s.group) {
      ++inside;
      continue;
    }
    if (g < 0 || !groups_[static_cast<size_t>(g)].fusible || groups_[static_cast<size_t>(g)].closed)
      return false;
    ++outside;
  }
  if (outside == 0 || (inside == 0 && own.ops.size() > 1)) return false;
  const int64_t stored = bytesOf(m_.result(o));
  // Its operands live longer for it: they may not be much larger than what they replace.
  return stored > 0 && cost <= stored + stored / 8 && cost * outside <= stored * (1 + outside);
}

// A launch costs about as much as some thousand elements, and a kernel of a few rows leaves cores idle. Larger groups stay
// apart: they gain nothing, and what they read and write would have to live at the same time.
void FusionGroups::joinSmall() {
  constexpr int64_t kSmallElements = 1 << 14;
  constexpr size_t kMostAxes =
      32; // each brings loops of its own, and a kernel has so many axes at most (Loops.h)
  std::unordered_map<int64_t, std::pair<uint32_t, size_t>>
      open; // by level: the group that others join, and its axes
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const FusionGroup& group = groups_[g];
    if (!group.fusible || group.closed || group.rows || group.ops.empty() || group.kind != "pointwise" ||
        !group.elements.sizes.empty() || group.elements.number > kSmallElements ||
        (group.ops.size() == 1 && state_.at(group.ops[0].index).again))
      continue;
    size_t axes = 0;
    for (OpId o : group.ops)
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        axes = std::max(axes, m_.typeOf(m_.result(o, r)).rank());
    auto [it, first] = open.try_emplace(group.level, g, axes);
    if (first) continue;
    auto& [into, taken] = it->second;
    if (taken + axes > kMostAxes || groups_[into].ops.size() + group.ops.size() > limit_) {
      it->second = {g, axes};
      continue;
    }
    merge(into, g);
    taken += axes;
  }
}

} // namespace dtc
