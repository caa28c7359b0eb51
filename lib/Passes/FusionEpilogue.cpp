// What stands behind a matrix product in the same call: elementwise ops over its result, done block by block while the library's
// result lies in the cache. An op that alone reads the product joins at once: what it writes is no more than the product would
// be. Where the product has several readers, a kernel that is whole joins at the end: it reads the product from the cache, and all
// else that it reads and writes stays.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

// A vector along the product's last dim, which belongs to the second operand alone: the library adds it, and reads it from memory.
bool FusionGroups::libraryBias(OpId sum, ValueId product, ValueId bias, uint32_t g) const {
  const FusionGroup& group = groups_[g];
  for (const OpState* s = stateOf(bias); s && s->form.move && s->group < 0; s = nullptr)
    if (!s->form.compound) return false; // it is read where it lies
  if (group.ops.size() != 1 || m_.record(sum).scalar != std::string_view("a + b")) return false;
  const OpId gemm = group.ops[0];
  const Type &t = m_.typeOf(product), &b = m_.typeOf(bias);
  if (m_[gemm].numOperands != 2 || b.rank() != 1 || t.rank() == 0 || b.dims[0] != t.dims.back()) return false;
  const Rule& rule = state_.at(gemm.index).form.rule;
  const int n = rule.factorOf(rule.results[0], t.rank() - 1);
  bool inA = false, inB = false;
  for (const DimMap& d : rule.operands[0].dims) inA |= d.plain() && d.terms[0].factor == n;
  for (const DimMap& d : rule.operands[1].dims) inB |= d.plain() && d.terms[0].factor == n;
  return n >= 0 && !inA && inB;
}

// Why the op cannot follow the product that group `g` ends with; "" where it can.
std::string_view FusionGroups::epilogueObstacle(OpId o, uint32_t g) {
  const FusionGroup& group = groups_[g];
  const FusionForm& form = state_[o.index].form;
  const ValueId product = m_.result(group.ops.back());
  if (form.reduces || form.indexed || form.contracts || form.move || !m_.record(o).scalar ||
      m_[o].numResults != 1 || m_[product].type != m_[m_.result(o)].type)
    return "it is no elementwise op on the product's shape and dtype";
  if (group.ops.size() >= limit_) return "the call has as many ops as the limit allows";
  uint32_t uses = 0;
  int64_t level = group.level;
  for (ValueId v : m_.operands(o)) {
    uses += v == product;
    if (v == product) continue;
    if (groupOf(sourceOf(v).value) == static_cast<int>(g)) return "it reads the product through a move";
    level = std::max(level, levelOf(v) + 1);
  }
  if (uses == 0) return "the product is moved, or has been stored, before it is read";
  if (uses_[product.index] != uses) return "the product has other readers, which need it stored";
  if (group.minUser <= level) return "something between the two needs the one and gives to the other";
  for (ValueId v : m_.operands(o)) {
    const int other = groupOf(sourceOf(v).value);
    if (v == product || other < 0) continue;
    const FusionGroup& made = groups_[static_cast<size_t>(other)];
    if (made.fusible && !made.closed && made.minUser > level && candidate(o, static_cast<uint32_t>(other)))
      return "the kernel of its other operand takes it in, and would have to store that operand";
  }
  return "";
}

bool FusionGroups::joinEpilogue(OpId o) {
  int best = -1; // the product that is made last: the others are there by then
  for (ValueId v : m_.operands(o)) {
    const int g = groupOf(v);
    if (g < 0 || groups_[static_cast<size_t>(g)].kind != "gemm") continue;
    if (best >= 0 && groups_[static_cast<size_t>(g)].level < groups_[static_cast<size_t>(best)].level)
      continue;
    if (epilogueObstacle(o, static_cast<uint32_t>(g)).empty()) best = g;
  }
  if (best < 0) return false;
  const auto g = static_cast<uint32_t>(best);
  FusionGroup& group = groups_[g];
  const ValueId product = m_.result(group.ops.back());
  for (ValueId v : std::vector<ValueId>(m_.operands(o).begin(), m_.operands(o).end())) {
    if (v == product) continue;
    group.level = std::max(group.level, levelOf(v) + 1);
    if (libraryBias(o, product, v, g)) store(v);
    if (const int from = groupOf(sourceOf(v).value); from >= 0 && from != best)
      note(o, v, "one product is computed at a time: the other one is read from memory");
  }
  groups_[g].ops.push_back(o);
  state_[o.index].group = best;
  state_[o.index].placed = now_++;
  noteUses(o, groups_[g].level, g);
  return true;
}

// Who reads each value from memory, and by way of moves that are folded.
FusionGroups::Readings FusionGroups::readings() const {
  Readings found;
  for (OpId o : m_[block_].ops) {
    if (state_.at(o.index).group < 0) continue;
    std::vector<std::pair<ValueId, bool>> work;
    for (ValueId v : valuesReadBy(o)) work.push_back({v, false});
    while (!work.empty()) {
      const auto [v, moved] = work.back();
      work.pop_back();
      if (!stateOf(v)) continue;
      if (!folds(o, OpId(m_[v].owner))) {
        found[v.index].push_back({o, moved});
        continue;
      }
      for (ValueId next : m_.operands(OpId(m_[v].owner))) work.push_back({next, true});
    }
  }
  return found;
}

// Is it a kernel of elementwise ops on the product's elements, each at its own place?
bool FusionGroups::elementwiseBeside(const FusionGroup& g, const Type& product) const {
  if (!g.fusible || g.closed || g.rows || g.kind != "pointwise" || g.ops.empty()) return false;
  return std::all_of(g.ops.begin(), g.ops.end(), [&](OpId o) {
    const FusionForm& form = state_.at(o.index).form;
    return !form.move && !form.indexed && m_.record(o).scalar && m_[o].numResults == 1 &&
           m_.typeOf(m_.result(o)).dims == product.dims;
  });
}

bool FusionGroups::takeIn(uint32_t g, uint32_t reader, ValueId product, const Readings& readings) {
  FusionGroup &group = groups_[g], &taken = groups_[reader];
  const Type& type = m_.typeOf(product);
  if (!elementwiseBeside(taken, type) || group.ops.size() + taken.ops.size() > limit_) return false;
  int64_t level = group.level, others = INT64_MAX;
  for (OpId o : taken.ops)
    for (ValueId v : m_.operands(o)) {
      const int from = groupOf(sourceOf(v).value);
      if (from == static_cast<int>(g) && v != product) return false;
      if (from != static_cast<int>(g) && from != static_cast<int>(reader))
        level = std::max(level, levelOf(v) + 1);
    }
  auto isYielded = [&](ValueId v) {
    const std::vector<ValueId>& yields = m_[block_].yields;
    return std::find(yields.begin(), yields.end(), v) != yields.end();
  };
  // The product is made in its own place, or in that of a result of its dtype.
  bool place = isYielded(product);
  for (const FusionGroup* of : {&group, &taken})
    for (OpId o : of->ops) {
      const ValueId made = m_.result(o);
      bool stored = isYielded(made);
      if (auto it = readings.find(made.index); it != readings.end())
        for (const Reading& r : it->second) {
          const int at = state_.at(r.reader.index).group;
          if (at == static_cast<int>(g) || at == static_cast<int>(reader)) continue;
          stored = true;
          if (of == &group) others = std::min(others, groups_[static_cast<size_t>(at)].level);
        }
      place |= stored && m_.typeOf(made).dtype == type.dtype && (of == &taken || made == product);
    }
  if (!place || others <= level) return false;
  group.ops.insert(group.ops.end(), taken.ops.begin(), taken.ops.end());
  for (OpId o : taken.ops) state_[o.index].group = static_cast<int32_t>(g);
  for (OpId o : taken.ops) noteUses(o, level, g);
  group.level = level;
  group.minUser = std::min(others, taken.minUser);
  taken.ops.clear();
  return true;
}

void FusionGroups::takeInReaders() {
  const Readings all = readings();
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].fusible || groups_[g].kind != "gemm") continue;
    // What only moves the result has its place already.
    const OpId last = groups_[g].ops.back();
    if (state_.at(last.index).form.move || m_[last].numResults != 1) continue;
    const ValueId product = m_.result(last);
    auto it = all.find(product.index);
    if (it == all.end()) continue;
    std::vector<uint32_t> readers;
    for (const Reading& r : it->second) {
      const int at = state_.at(r.reader.index).group;
      if (at < 0 || at == static_cast<int>(g) || r.moved) continue;
      if (std::find(readers.begin(), readers.end(), static_cast<uint32_t>(at)) == readers.end())
        readers.push_back(static_cast<uint32_t>(at));
    }
    for (uint32_t reader : readers) takeIn(g, reader, product, all);
  }
}

} // namespace dtc
