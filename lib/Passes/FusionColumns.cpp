// Columns beside rows: a reduction of what a kernel of rows computes, or reads, along the rows themselves. Its parts are made while
// the rows go by, so that what it reduces is read once and never stored.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

// Fewer leave a GPU idle while each block walks over its rows: then the columns' kernel reads the rows again.
static constexpr int64_t kLeastParts = 64;

// `o` reduces values of the group's rows, of which one dim is cut in two: the inner part, and what lies behind it up to the rows'
// own dims; parts remain, and each row lies within one.
bool FusionGroups::columnsOf(OpId o, const FusionGroup& g) const {
  const FusionForm& form = state_.at(o.index).form;
  if (!g.rows || !form.reduces || m_[o].numOperands != 1 || m_[o].numResults != 1 || g.reduced.empty() ||
      !g.reduced.back())
    return false;
  const ValueId operand = m_.operand(o, 0);
  const Type& parted = m_.typeOf(operand);
  const Type& result = m_.typeOf(m_.result(o));
  if (!parted.isStatic() || isNarrowFloat(result.dtype) || isBool(result.dtype) || isComplex(result.dtype) ||
      parted.rank() != g.full.size() + 1)
    return false;
  const OpState* cut = stateOf(operand); // a reshape that the reader folds, of a value of the rows
  if (!cut || !cut->form.move || !cut->form.compound || cut->group >= 0) return false;
  const ValueId source = m_.operand(OpId(m_[operand].owner), 0);
  const OpState* made = stateOf(source);
  if (m_.typeOf(source).dims != g.full || sourceOf(source).moved || (made && made->unaligned)) return false;
  if (!g.parted.empty()) return g.parted == parted.dims && g.partReduced == form.reduced;
  size_t at = 0;
  while (at < g.full.size() && parted.dims[at] == g.full[at]) ++at;
  if (at == g.full.size() || !std::equal(g.full.begin() + static_cast<std::ptrdiff_t>(at) + 1, g.full.end(),
                                         parted.dims.begin() + static_cast<std::ptrdiff_t>(at) + 2))
    return false;
  int64_t parts = 1;
  for (size_t d = 0; d < parted.rank(); ++d) {
    const bool row = d > at ? g.reduced[d - 1] : d < at && g.reduced[d];
    if (row && form.reduced[d]) return false;
    if (form.reduced[d] && d <= at) return false; // parts stand outside
    if (!row && !form.reduced[d] && d > at) return false;
    if (!row && !form.reduced[d]) parts *= parted.dims[d].value();
  }
  return parts >= kLeastParts && !g.reduced[at] && form.reduced[at + 1];
}

// What reduces columns of a value that another kernel makes runs with the rows that read it: with `join` where that is what widens the
// value for it, and nothing else.
int FusionGroups::rowsBeside(OpId o, std::span<const uint32_t> join) {
  const OpState& s = state_.at(o.index);
  if (!s.form.reduces || m_[o].numOperands != 1 || join.size() > 1) return -1;
  ValueId source = sourceOf(m_.operand(o, 0)).value;
  if (!join.empty()) {
    const FusionGroup& own = groups_[join[0]];
    if (own.ops.size() != 1 || own.rows || m_[own.ops[0]].numOperands != 1) return -1;
    const Source behind = sourceOf(m_.operand(own.ops[0], 0));
    if (behind.moved) return -1;
    source = behind.value;
  }
  auto it = rowReaders_.find(source.index);
  if (it == rowReaders_.end()) return -1;
  for (OpId reader : it->second) {
    const int g = state_.at(reader.index).group;
    if (g < 0 || (!join.empty() && static_cast<uint32_t>(g) == join[0])) continue;
    const FusionGroup& group = groups_[static_cast<size_t>(g)];
    if (group.fusible && !group.closed && group.ops.size() + 2 <= limit_ && columnsOf(o, group)) return g;
  }
  return -1;
}

} // namespace dtc
