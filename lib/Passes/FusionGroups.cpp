#include "FusionGroups.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <utility>

namespace dtc {

FusionGroups::FusionGroups(Module& m, BlockId block, size_t limit, bool narrow)
    : m_(m), block_(block), limit_(limit), narrow_(narrow) {
  state_.reserve(m[block].ops.size());
  uses_.reserve(m[block].ops.size());
  position_.reserve(m[block].ops.size());
  for (OpId o : m[block].ops) {
    position_.emplace(o.index, position_.size());
    for (ValueId v : valuesReadBy(o)) ++uses_[v.index];
  }
  for (ValueId v : m[block].yields) ++uses_[v.index];
}

std::vector<ValueId> FusionGroups::valuesReadBy(OpId o) const {
  std::vector<ValueId> read(m_.operands(o).begin(), m_.operands(o).end());
  for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
    forEachOp(m_, m_.region(o, r), [&](OpId inner) {
      read.insert(read.end(), m_.operands(inner).begin(), m_.operands(inner).end());
      for (uint32_t k = 0; k < m_[inner].numRegions; ++k) {
        const std::vector<ValueId>& yields = m_[m_.region(inner, k)].yields;
        read.insert(read.end(), yields.begin(), yields.end());
      }
    });
    const std::vector<ValueId>& yields = m_[m_.region(o, r)].yields;
    read.insert(read.end(), yields.begin(), yields.end());
  }
  return read;
}

void FusionGroups::run() {
  for (OpId o : m_[block_].ops) {
    OpState& s = state_[o.index];
    s.form = fusionFormOf(m_, o);
    s.placed = now_++;
    if (!s.form.loops)
      stay(o);
    else if (s.form.move && limit_ > 1)
      continue;
    else if (s.form.contracts || s.form.ordered || s.form.alone || limit_ <= 1)
      contract(o);
    else if (madeOfNothing(o))
      s.form.move = true, s.form.compound = false;
    else if (!joinEpilogue(o))
      place(o);
  }
  for (ValueId v : m_[block_].yields) store(v);
  if (limit_ <= 1) return;
  chooseLayouts();
  takeInReaders();
  computeAgain();
  joinSmall();
  // A move that was stored late stands behind its readers in the same group until here.
  for (FusionGroup& g : groups_)
    std::sort(g.ops.begin(), g.ops.end(),
              [&](OpId p, OpId q) { return position_.at(p.index) < position_.at(q.index); });
}

// Numbers of the coordinates alone (a causal mask): cheaper made again by each reader than read.
bool FusionGroups::madeOfNothing(OpId o) const {
  const FusionForm& form = state_.at(o.index).form;
  if (form.reduces || form.indexed) return false;
  for (ValueId v : m_.operands(o)) {
    const ValueKind kind = m_[v].kind;
    if (kind == ValueKind::Literal || kind == ValueKind::Symbol) continue;
    const Source s = sourceOf(v);
    const OpState* state = stateOf(s.value);
    if (!state || !state->form.move || state->group >= 0 || m_[OpId(m_[s.value].owner)].numOperands != 0)
      return false;
  }
  return true;
}

const FusionGroups::OpState* FusionGroups::stateOf(ValueId v) const {
  const Value& value = m_[v];
  if (value.kind != ValueKind::OpResult) return nullptr;
  auto it = state_.find(value.owner);
  return it == state_.end() ? nullptr : &it->second;
}
FusionGroups::OpState* FusionGroups::stateOf(ValueId v) {
  return const_cast<OpState*>(std::as_const(*this).stateOf(v));
}

FusionGroups::Source FusionGroups::sourceOf(ValueId v) const {
  Source s{v};
  for (;;) {
    const OpState* state = stateOf(s.value);
    if (!state || !state->form.move || state->group >= 0) return s;
    const OpId o(m_[s.value].owner);
    if (m_[o].numOperands != 1) return s;
    s.moved = true;
    s.near &= state->form.compound;
    if (!state->form.compound)
      s.aligned = false;
    else {
      // Aligned: the operand's dims in their order among the result's, each by itself.
      int last = -1;
      for (const DimMap& d : state->form.rule.operands[0].dims) {
        if (d.terms.empty()) continue;
        int at = -1;
        const std::vector<DimMap>& result = state->form.rule.results[0].dims;
        for (size_t i = 0; i < result.size(); ++i)
          if (d.plain() && result[i].plain() && result[i].terms[0].factor == d.terms[0].factor)
            at = static_cast<int>(i);
        if (at <= last) s.aligned = false;
        last = at;
      }
    }
    s.value = m_.operand(o, 0);
  }
}

int FusionGroups::groupOf(ValueId v) const {
  const OpState* s = stateOf(v);
  return s ? s->group : -1;
}

int64_t FusionGroups::levelOf(ValueId v) const {
  const Source s = sourceOf(v);
  const int g = groupOf(s.value);
  if (g >= 0) return groups_[static_cast<size_t>(g)].level;
  // A move of several operands or none.
  int64_t level = -1;
  if (const OpState* state = stateOf(s.value); state && state->form.move)
    for (ValueId operand : m_.operands(OpId(m_[s.value].owner))) level = std::max(level, levelOf(operand));
  return level;
}

void FusionGroups::noteUses(OpId o, int64_t level, uint32_t own) {
  std::vector<ValueId> read = valuesReadBy(o);
  for (size_t i = 0; i < read.size(); ++i) { // it grows: a move of two operands reads both
    const ValueId v = sourceOf(read[i]).value;
    const int g = groupOf(v);
    if (const OpState* state = stateOf(v); g < 0 && state && state->form.move)
      for (ValueId behind : m_.operands(OpId(m_[v].owner))) read.push_back(behind);
    if (g >= 0 && static_cast<uint32_t>(g) != own) {
      int64_t& least = groups_[static_cast<size_t>(g)].minUser;
      least = std::min(least, level);
    }
  }
}

ElementCount FusionGroups::elementsOf(const Type& t) const {
  ElementCount e;
  for (Dim d : t.dims) {
    if (d.isStatic())
      e.number *= d.value();
    else
      e.sizes.push_back(-1 - static_cast<int64_t>(d.tableIndex()));
  }
  std::sort(e.sizes.begin(), e.sizes.end());
  return e;
}

uint32_t FusionGroups::newGroup(OpId o, bool fusible, std::string_view kind) {
  const uint32_t g = static_cast<uint32_t>(groups_.size());
  FusionGroup& group = groups_.emplace_back();
  group.fusible = fusible;
  group.kind = kind;
  group.ops = {o};
  for (ValueId v : valuesReadBy(o)) group.level = std::max(group.level, levelOf(v) + 1);
  if (m_[o].numResults != 0) group.elements = elementsOf(m_.typeOf(m_.result(o)));
  state_[o.index].group = static_cast<int32_t>(g);
  noteUses(o, group.level, g);
  return g;
}

void FusionGroups::stay(OpId o) {
  for (ValueId v : valuesReadBy(o)) store(v);
  state_[o.index].placed = now_++; // it reads what was just stored from memory
  const uint32_t g = newGroup(o, false, "");
  const OpRecord& record = m_.record(o);
  if (!record.sideEffect && !record.isCollective() && m_[o].numRegions == 0) return;
  // Every device meets collectives, and a person prints, in the order of the text.
  groups_[g].level = std::max(groups_[g].level, effectLevel_ + 1);
  effectLevel_ = groups_[g].level;
  noteUses(o, groups_[g].level, g);
}

bool FusionGroups::permuted(ValueId v) const {
  for (const OpState* s = stateOf(v); s && s->form.move && s->group < 0; s = stateOf(v)) {
    if (!permutesAllButLast(s->form)) return false;
    v = m_.operand(OpId(m_[v].owner), 0);
  }
  return true;
}

// A loop nest of its own; a library and attention read views that strides can say, a convolution (whose gradient swaps images and
// channels) permuted ones; all else lies in memory.
void FusionGroups::contract(OpId o) {
  const FusionForm& form = state_[o.index].form;
  const auto reads = [&](ValueId v) {
    return form.library || form.attention ? strided(v, form.library) : form.window && permuted(v);
  };
  NarrowFactor narrow;
  const bool takes = narrow_ && form.library && limit_ > 1 && takesNarrow(o, narrow);
  for (size_t i = takes ? 2 : 0; i < m_[o].numOperands; ++i)
    if (limit_ <= 1 || !reads(m_.operand(o, i))) store(m_.operand(o, i));
  if (limit_ > 1 && form.library && !takes) storeForOneWalk(o);
  for (ValueId v : narrow.scales) store(v);
  state_[o.index].placed = now_++; // it reads what was just stored from memory
  for (size_t i = takes ? 2 : 0; i < m_[o].numOperands; ++i)
    note(o, m_.operand(o, i),
         form.library   ? "a library reads its operands from memory"
         : form.ordered ? "an op that stores in an order of its own reads its operands from memory"
                        : "a contraction reads its operands many times: from memory");
  std::string_view kind = form.library                     ? "gemm"
                          : form.attention                 ? "attention"
                          : form.ordered                   ? "ordered"
                          : form.alone                     ? "whole"
                          : form.contracts || form.reduces ? "reduce"
                                                           : "pointwise";
  if (form.move) {
    kind = "copy";
    if (form.compound) {
      StridedView view(m_, m_.typeOf(m_.operand(o, 0)));
      if (view.apply(form.rule) && view.identity()) kind = "view";
    }
  }
  const uint32_t g = newGroup(o, true, kind);
  groups_[g].closed = true;
  state_[o.index].stored = 0;
  if (takes) foldFactors(o, narrow);
}

FusionGroups::Shape FusionGroups::shapeBeside(const FusionGroup& g, const Type& t) {
  if (t.dims == g.full) return Shape::Full;
  std::vector<Dim> kept = g.full, dropped;
  for (size_t d = 0; d < g.full.size(); ++d) {
    if (g.reduced[d])
      kept[d] = Dim(1);
    else
      dropped.push_back(g.full[d]);
  }
  if (t.dims == kept) return Shape::RowKept;
  return t.dims == dropped ? Shape::RowDropped : Shape::Other;
}

// In a group with reductions every value must lie as the rows do, or be one that no reduction reads again.
bool FusionGroups::fitsRows(OpId o, const FusionGroup& g) {
  OpState& s = state_[o.index];
  if (s.form.reduces && columnsOf(o, g)) return s.unaligned = true;
  const std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
  const Type& result = m_.typeOf(m_.result(o));
  Shape shape = shapeBeside(g, result);
  bool unaligned = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Source source = sourceOf(operands[i]);
    const int from = groupOf(source.value);
    if (from < 0 || &groups_[static_cast<size_t>(from)] != &g) continue;
    const OpState* made = stateOf(source.value);
    unaligned |= !source.aligned || (made && made->unaligned);
    const Shape in = shapeBeside(g, m_.typeOf(operands[i]));
    if (s.form.reduces) {
      if (unaligned || in == Shape::Other || (i == 0 && in != Shape::Full)) return false;
      continue;
    }
    const bool wide = elementsOf(m_.typeOf(operands[i])) == g.elements;
    if (unaligned || shape == Shape::Other || in == Shape::Other) {
      if (!wide || elementsOf(result) != g.elements) return false;
      unaligned = true;
    } else if (in != shape && !(shape == Shape::Full && in == Shape::RowKept)) {
      return false;
    }
  }
  if (s.form.reduces && (m_.typeOf(operands[0]).dims != g.full || s.form.reduced != g.reduced)) return false;
  s.unaligned = unaligned;
  return true;
}

std::string_view FusionGroups::obstacle(OpId o, uint32_t gi) {
  const FusionGroup& g = groups_[gi];
  const FusionForm& form = state_[o.index].form;
  if (!g.fusible) return "it is made outside of kernels";
  if (g.kind == "gemm") return epilogueObstacle(o, gi);
  if (g.closed) return "a contraction or a copy takes in nothing but what only moves its result";
  if (g.ops.size() >= limit_) return "the kernel has as many ops as the limit allows";
  if (form.indexed) return "it is read where data or an irregular index says";
  for (ValueId v : m_.operands(o)) {
    const Source s = sourceOf(v);
    if (groupOf(s.value) == static_cast<int>(gi) && !s.near)
      return "it is read through a move that would compute it again";
  }
  if (g.rows)
    return fitsRows(o, g) ? "" : "its elements do not lie along the rows of the reduction beside it";
  for (ValueId v : m_.operands(o))
    if (groupOf(sourceOf(v).value) == static_cast<int>(gi) && elementsOf(m_.typeOf(v)) != g.elements)
      return "it has fewer elements than what is computed beside it";
  const ValueId wide = form.reduces ? m_.operand(o, 0) : m_.result(o);
  return elementsOf(m_.typeOf(wide)) == g.elements ? "" : "its reader has another number of elements";
}

std::vector<KeptApart> FusionGroups::keptApart() const {
  std::vector<KeptApart> out;
  for (const KeptApart& a : apart_) {
    const int from = groupOf(sourceOf(a.value).value), to = state_.at(a.reader.index).group;
    const OpState* made = stateOf(a.value);
    if (made && made->again) continue;
    if (from >= 0 && to >= 0 && from != to && groups_[static_cast<size_t>(from)].fusible) out.push_back(a);
  }
  return out;
}

bool FusionGroups::mergeable(const FusionGroup& a, const FusionGroup& b) const {
  if (a.ops.size() + b.ops.size() > limit_ || a.elements != b.elements) return false;
  if (a.rows && b.rows && (a.full != b.full || a.reduced != b.reduced)) return false;
  return a.parted.empty() || b.parted.empty() || (a.parted == b.parted && a.partReduced == b.partReduced);
}

void FusionGroups::merge(uint32_t into, uint32_t from) {
  FusionGroup &a = groups_[into], &b = groups_[from];
  for (OpId o : b.ops) state_[o.index].group = static_cast<int32_t>(into);
  a.ops.insert(a.ops.end(), b.ops.begin(), b.ops.end());
  std::sort(a.ops.begin(), a.ops.end(),
            [&](OpId p, OpId q) { return position_.at(p.index) < position_.at(q.index); });
  a.minUser = std::min(a.minUser, b.minUser);
  a.level = std::max(a.level, b.level);
  if (b.rows && a.kind != "columns") a.kind = b.kind;
  if (b.rows) a.rows = true, a.full = b.full, a.reduced = b.reduced;
  if (!b.parted.empty()) a.parted = b.parted, a.partReduced = b.partReduced;
  b.ops.clear();
}

void FusionGroups::add(OpId o, uint32_t g) {
  FusionGroup& group = groups_[g];
  OpState& s = state_[o.index];
  if (s.group < 0) group.ops.push_back(o);
  s.group = static_cast<int32_t>(g);
  if (s.form.reduces && group.rows && columnsOf(o, group)) {
    group.parted = m_.typeOf(m_.operand(o, 0)).dims;
    group.partReduced = s.form.reduced;
    group.kind = "columns";
  }
  if (!s.form.reduces || group.rows) return;
  const Type& t = m_.typeOf(m_.operand(o, 0));
  group.rows = true;
  group.full = t.dims;
  group.reduced = s.form.reduced;
  group.elements = elementsOf(t);
  group.kind = s.form.reduced.back() ? "row" : "reduce";
}

void FusionGroups::place(OpId o) {
  std::vector<uint32_t> join;
  for (ValueId v : m_.operands(o)) {
    const int g = groupOf(sourceOf(v).value);
    const uint32_t gi = static_cast<uint32_t>(g);
    if (g < 0 || std::find(join.begin(), join.end(), gi) != join.end()) continue;
    if (std::string_view why = obstacle(o, gi); !why.empty()) {
      note(o, v, why);
      continue;
    }
    bool fits = true;
    size_t ops = 1;
    for (uint32_t other : join)
      fits &= mergeable(groups_[other], groups_[gi]), ops += groups_[other].ops.size();
    if (fits && ops + groups_[gi].ops.size() <= limit_)
      join.push_back(gi);
    else
      note(o, v,
           fits ? "the kernel would have more ops than the limit allows"
                : "its other operands come from rows of another kind");
  }
  const int beside = rowsBeside(o, join);
  if (beside >= 0 && (join.empty() || mergeable(groups_[join[0]], groups_[static_cast<size_t>(beside)])))
    join.push_back(static_cast<uint32_t>(beside));
  const std::vector<uint32_t> wanted = join;
  // The level that the whole would have; a group that something at or below it reads cannot rise so far.
  int64_t level = 0;
  for (bool again = true; again;) {
    again = false;
    level = 0;
    for (uint32_t g : join) level = std::max(level, groups_[g].level);
    for (ValueId v : m_.operands(o)) {
      const int g = groupOf(sourceOf(v).value);
      if (g < 0 || std::find(join.begin(), join.end(), static_cast<uint32_t>(g)) == join.end())
        level = std::max(level, levelOf(v) + 1);
    }
    again = std::erase_if(join, [&](uint32_t g) { return groups_[g].minUser <= level; }) != 0;
  }
  for (ValueId v : m_.operands(o)) // one of them alone may not lie as the rows of the others
    if (beside < 0 && join.size() > 1 && !sourceOf(v).aligned) join.resize(1);
  if (join.size() == 1) {
    level = groups_[join[0]].level;
    for (ValueId v : m_.operands(o))
      if (groupOf(sourceOf(v).value) != static_cast<int>(join[0])) level = std::max(level, levelOf(v) + 1);
    if (groups_[join[0]].minUser <= level) join.clear();
  }
  for (ValueId v : m_.operands(o)) {
    const int from = groupOf(sourceOf(v).value);
    const auto gi = static_cast<uint32_t>(from);
    if (from >= 0 && std::find(wanted.begin(), wanted.end(), gi) != wanted.end() &&
        std::find(join.begin(), join.end(), gi) == join.end())
      note(o, v, "something between the two needs the one and gives to the other, or lies otherwise");
  }
  const uint32_t g = join.empty() ? newGroup(o, true, "pointwise") : join[0];
  for (size_t i = 1; i < join.size(); ++i) merge(g, join[i]);
  if (!join.empty()) groups_[g].level = level;
  add(o, g);
  noteUses(o, groups_[g].level, g);
  for (ValueId v : m_.operands(o)) rowReaders_[sourceOf(v).value.index].push_back(o);
}

// A move whose operand's kernel can write it in its place: no copy.
bool FusionGroups::joinMove(OpId o, std::string_view& kind) {
  const OpState& s = state_[o.index];
  kind = "copy";
  if (m_[o].numOperands == 0) return kind = "pointwise", false;
  if (!s.form.compound) return false;
  const Source source = sourceOf(m_.result(o));
  if (const OpState* base = stateOf(source.value); base && base->form.move && base->group < 0)
    return false; // of no bytes that lie in memory
  StridedView view(m_, m_.typeOf(source.value));
  std::vector<const Rule*> moves;
  for (ValueId v = m_.result(o); v != source.value; v = m_.operand(OpId(m_[v].owner), 0))
    moves.push_back(&stateOf(v)->form.rule);
  bool known = source.near;
  for (size_t i = moves.size(); i-- > 0 && known;) known = view.apply(*moves[i]);
  if (known && view.identity()) return kind = "view", false;
  const int g = groupOf(source.value);
  if (g < 0 || !source.near || !known) return false;
  FusionGroup& group = groups_[static_cast<size_t>(g)];
  if (!group.fusible || group.ops.size() >= limit_ || elementsOf(m_.typeOf(m_.result(o))) != group.elements)
    return false;
  if (group.closed) { // it is written once: moved, or as it is
    const bool window = state_.at(group.ops[0].index).form.window && permutesAllButLast(s.form);
    if (group.kind != "gemm" && group.kind != "attention" && !window) return false;
    for (ValueId v = m_.operand(o, 0); v != source.value; v = m_.operand(OpId(m_[v].owner), 0))
      if (uses_[v.index] != 1) return false;
  }
  // The only reader of a value writes it elsewhere; another copy of it would be one more output.
  return uses_[source.value.index] == 1;
}

void FusionGroups::store(ValueId v) {
  OpState* s = stateOf(v);
  if (!s || !s->form.move || s->group >= 0) return;
  const OpId o(m_[v].owner);
  std::string_view kind;
  if (joinMove(o, kind)) {
    const uint32_t g = static_cast<uint32_t>(groupOf(sourceOf(v).value));
    std::vector<OpId>& ops = groups_[g].ops; // before those of them that folded it so far
    ops.insert(
        std::upper_bound(ops.begin(), ops.end(), o,
                         [&](OpId p, OpId q) { return position_.at(p.index) < position_.at(q.index); }),
        o);
    s->group = static_cast<int32_t>(g);
    s->unaligned = true;
  } else {
    const uint32_t g = newGroup(o, true, kind);
    groups_[g].closed = true;
  }
  s->stored = now_++;
}

bool FusionGroups::folds(OpId reader, OpId op) const {
  auto it = state_.find(op.index);
  if (it == state_.end()) return false;
  if (auto f = factors_.find(reader.index); f != factors_.end())
    if (std::find(f->second.begin(), f->second.end(), op) != f->second.end()) return true;
  if (it->second.again) return it->second.group != state_.at(reader.index).group;
  if (!it->second.form.move) return false;
  if (it->second.group < 0) return true;
  const FusionGroup& made = groups_[static_cast<size_t>(it->second.group)];
  if (it->second.chosen || (made.closed && made.ops.size() > 1))
    return false; // its maker writes it moved, and nothing else
  const OpState& r = state_.at(reader.index);
  const int64_t when = r.form.move && r.stored != INT64_MAX ? r.stored : r.placed;
  return it->second.stored > when && it->second.group != r.group;
}

std::vector<uint32_t> FusionGroups::order() const {
  std::vector<std::vector<uint32_t>> reads(groups_.size());
  std::vector<uint32_t> first; // groups by their first op
  int64_t effect = -1;
  for (OpId o : m_[block_].ops) {
    const OpState& s = state_.at(o.index);
    if (s.group < 0) continue;
    const uint32_t g = static_cast<uint32_t>(s.group);
    if (groups_[g].ops.front() == o) first.push_back(g);
    std::vector<std::pair<OpId, ValueId>> work;
    for (ValueId v : valuesReadBy(o)) work.push_back({o, v});
    while (!work.empty()) {
      const auto [reader, v] = work.back();
      work.pop_back();
      const OpState* made = stateOf(v);
      if (!made) continue;
      if (folds(o, OpId(m_[v].owner))) {
        for (ValueId next : m_.operands(OpId(m_[v].owner))) work.push_back({reader, next});
      } else if (made->group >= 0 && static_cast<uint32_t>(made->group) != g) {
        reads[g].push_back(static_cast<uint32_t>(made->group));
      }
    }
    const OpRecord& record = m_.record(o);
    if (groups_[g].fusible || (!record.sideEffect && !record.isCollective() && m_[o].numRegions == 0))
      continue;
    if (effect >= 0) reads[g].push_back(static_cast<uint32_t>(effect));
    effect = g;
  }
  std::vector<uint32_t> order;
  std::vector<uint8_t> seen(groups_.size());
  for (uint32_t root : first) {
    std::vector<std::pair<uint32_t, size_t>> stack = {{root, 0}};
    while (!stack.empty()) {
      auto& [g, next] = stack.back();
      if (seen[g] == 2) {
        stack.pop_back();
        continue;
      }
      seen[g] = 1;
      if (next < reads[g].size()) {
        const uint32_t below = reads[g][next++];
        DTC_CHECK(seen[below] != 1, "fusion made a circle of groups");
        if (seen[below] == 0) stack.push_back({below, 0});
        continue;
      }
      seen[g] = 2;
      order.push_back(g);
      stack.pop_back();
    }
  }
  return order;
}

} // namespace dtc
