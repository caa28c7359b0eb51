#include "dtc/Passes/simplify/Canonicalize.h"
#include "analysis/Within.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {

namespace {

// Removes unused ops without side effects, in reverse order, so that their operands become unused too.
class DeadCode {
public:
  explicit DeadCode(Module& m) : m_(m), uses_(m.values.size(), 0) {
    for (FuncId f : m.order) {
      forEachOp(m_, m_[f].body, [&](OpId o) { countOp(o, 1); });
      for (ValueId v : m_[m_[f].body].yields) ++uses_[v.index];
    }
  }

  void run(BlockId b) {
    std::vector<OpId> kept;
    const std::vector<OpId>& ops = m_[b].ops;
    for (size_t i = ops.size(); i-- > 0;) {
      if (dead(ops[i])) {
        drop(ops[i]);
        continue;
      }
      for (uint32_t k = 0; k < m_[ops[i]].numRegions; ++k) run(m_.region(ops[i], k));
      kept.push_back(ops[i]);
    }
    m_[b].ops.assign(kept.rbegin(), kept.rend());
  }

private:
  void countOp(OpId o, int by) {
    for (ValueId v : m_.operands(o)) uses_[v.index] += by;
    for (uint32_t k = 0; k < m_[o].numRegions; ++k)
      for (ValueId v : m_[m_.region(o, k)].yields) uses_[v.index] += by;
  }
  void drop(OpId o) {
    countOp(o, -1);
    for (uint32_t k = 0; k < m_[o].numRegions; ++k)
      forEachOp(m_, m_.region(o, k), [&](OpId inner) { countOp(inner, -1); });
  }
  bool dead(OpId o) const {
    if (hasEffect(o) || awaitsSharding(o)) return false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (uses_[m_.result(o, r).index] != 0) return false;
    return true;
  }
  // Before propagation, a member of a group may decide the others' sharding, also if its own result is unused.
  bool awaitsSharding(OpId o) const {
    return m_.record(o).constraint == Constraint::Shard && m_.attr(o, "group").valid() &&
           !m_[m_.result(o)].sharding.valid() && m_.shardings.numMeshes() > 0;
  }
  // Collectives are kept, too: all devices take part in them. So is a loop that
  // may not terminate, and an op without results.
  bool hasEffect(OpId o) const {
    const OpRecord& rec = m_.record(o);
    bool effect = rec.sideEffect || rec.isCollective() || rec.isCall || m_[o].numResults == 0;
    for (uint32_t k = 0; k < m_[o].numRegions; ++k)
      forEachOp(m_, m_.region(o, k), [&](OpId inner) {
        const OpRecord& r = m_.record(inner);
        effect = effect || r.sideEffect || r.isCollective() || r.isCall;
      });
    return effect;
  }

  Module& m_;
  std::vector<int> uses_; // by value
};

class Simplifier {
public:
  Simplifier(Module& m, Diagnostics& diags) : m_(m), diags_(diags), uses_(m.values.size(), 0) {
    for (FuncId f : m.order) {
      forEachOp(m_, m_[f].body, [&](OpId o) {
        for (ValueId v : m_.operands(o)) ++uses_[v.index];
        for (uint32_t k = 0; k < m_[o].numRegions; ++k)
          for (ValueId v : m_[m_.region(o, k)].yields) ++uses_[v.index];
      });
      for (ValueId v : m_[m_[f].body].yields) ++uses_[v.index];
    }
  }

  void run(BlockId b) {
    std::vector<OpId> out;
    std::vector<size_t> added; // keys added by this block: not visible outside it
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) m_.operands(o)[i] = map_(m_.operand(o, i));
      // An isolated region does not see the ops around it.
      bool isolated = isIsolated(m_.record(o).regions);
      std::unordered_multimap<size_t, OpId> outer;
      if (isolated) std::swap(outer, seen_);
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) run(m_.region(o, k));
      if (isolated) std::swap(outer, seen_);
      if (sameAsOperand(o)) {
        --uses_[m_.operand(o, 0).index];
        replace(m_.result(o), m_.operand(o, 0));
      } else if (takeBranch(o, b, out) || storeTransposed(o, b, out)) {
        continue;
      } else if (OpId twin = findTwin(o); twin.valid()) {
        for (uint32_t r = 0; r < m_[o].numResults; ++r) replace(m_.result(o, r), m_.result(twin, r));
      } else {
        if (shareable(o)) seen_.emplace(hash(o), o), added.push_back(hash(o));
        out.push_back(o);
      }
    }
    m_[b].ops = std::move(out);
    for (ValueId& v : m_[b].yields) v = map_(v);
    forget(b, added);
  }

private:
  void replace(ValueId from, ValueId to) {
    map_.set(from, to);
    uses_[to.index] += uses_[from.index];
    // A user's name is kept if the equal op has none.
    if (!m_[to].name.valid() && m_[to].kind == ValueKind::OpResult) m_[to].name = m_[from].name;
  }

  // An identity: no data movement, no change of type, no constraint.
  bool sameAsOperand(OpId o) const {
    const OpRecord& rec = m_.record(o);
    if (m_[o].numOperands != 1 || m_[o].numResults != 1 || rec.constraint != Constraint::None) return false;
    ValueId x = m_.operand(o, 0), y = m_.result(o);
    if (m_[x].kind == ValueKind::Literal || m_[x].kind == ValueKind::Symbol) return false;
    if (m_[x].type != m_[y].type || m_[y].sharding.valid()) return false;
    if (rec.lowering == Lowering::Annotation && !rec.isCall && m_[o].numRegions == 0)
      return true; // stop_gradient
    return rec.identityWhenSameType;
  }

  // A branch on a literal: inlines the block that is taken.
  bool takeBranch(OpId o, BlockId b, std::vector<OpId>& out) {
    if (m_.record(o).regions != RegionKind::Cond) return false;
    const Value& predicate = m_[m_.operand(o, 0)];
    if (predicate.kind != ValueKind::Literal) return false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (m_[m_.result(o, r)].sharding.valid()) return false; // a constraint of its own
    const BlockId taken = m_.region(o, m_.attrs[predicate.literal].i != 0 ? 0 : 1);
    for (ValueId v : m_[taken].yields)
      if (m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol) return false;
    for (OpId inner : m_[taken].ops) {
      m_[inner].parent = b;
      out.push_back(inner);
    }
    for (uint32_t r = 0; r < m_[o].numResults; ++r) replace(m_.result(o, r), m_[taken].yields[r]);
    m_[taken].ops.clear();
    return true;
  }

  // A transpose that is the only reader of an op that stores any order of dims (a matmul).
  bool storeTransposed(OpId o, BlockId b, std::vector<OpId>& out) {
    if (m_[o].numOperands != 1 || m_[o].numResults != 1) return false;
    const ValueId x = m_.operand(o, 0);
    const OpId maker = m_.definingOp(x);
    if (!maker.valid() || !m_.record(maker).transposed || m_[maker].parent != b || uses_[x.index] != 1 ||
        m_[x].sharding.valid())
      return false;
    const std::vector<int64_t> perm = permutationOf(m_, o);
    ValueId result;
    Builder builder(m_, b, out, diags_);
    builder.loc = m_[maker].loc;
    builder.common = inheritedAttrs(m_, maker);
    if (perm.empty() || !m_.record(maker).transposed(builder, maker, perm, result)) return false;
    uses_.resize(m_.values.size(), 0);
    m_[result].sharding = m_[m_.result(o)].sharding; // an annotated sharding stays a constraint
    replace(m_.result(o), result);
    return true;
  }

  bool shareable(OpId o) const {
    const OpRecord& rec = m_.record(o);
    if (rec.sideEffect || rec.isCall || rec.isCollective() || m_[o].numRegions != 0 || m_[o].numResults == 0)
      return false;
    if (rec.constraint != Constraint::None) return false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (m_[m_.result(o, r)].sharding.valid()) return false; // a constraint of its own
    return true;
  }

  size_t hash(OpId o) const {
    size_t h = m_[o].kind;
    for (ValueId v : m_.operands(o)) h = h * 0x100000001b3ull ^ key(v);
    for (const NamedAttr& a : withoutOrigin(m_, m_[o].attrs))
      h = h * 0x100000001b3ull ^ (a.name.index * 31ull + a.value.index);
    return h ^ m_[m_.result(o)].type.index;
  }
  // Equal literals are equal operands.
  size_t key(ValueId v) const {
    const Value& value = m_[v];
    return value.kind == ValueKind::Literal ? value.literal.index * 1315423911ull + value.type.index
                                            : v.index;
  }
  bool sameOperand(ValueId a, ValueId b) const {
    if (a == b) return true;
    const Value &x = m_[a], &y = m_[b];
    if (x.kind != y.kind || x.type != y.type) return false;
    return (x.kind == ValueKind::Literal && x.literal == y.literal) ||
           (x.kind == ValueKind::Symbol && x.symbol == y.symbol);
  }
  bool same(OpId a, OpId b) const {
    if (m_[a].kind != m_[b].kind || withoutOrigin(m_, m_[a].attrs) != withoutOrigin(m_, m_[b].attrs) ||
        m_[a].numResults != m_[b].numResults)
      return false;
    auto xs = m_.operands(a), ys = m_.operands(b);
    if (xs.size() != ys.size()) return false;
    for (size_t i = 0; i < xs.size(); ++i)
      if (!sameOperand(xs[i], ys[i])) return false;
    for (uint32_t r = 0; r < m_[a].numResults; ++r)
      if (m_[m_.result(a, r)].type != m_[m_.result(b, r)].type) return false;
    return true;
  }
  OpId findTwin(OpId o) const {
    if (!shareable(o)) return {};
    auto [first, last] = seen_.equal_range(hash(o));
    for (auto it = first; it != last; ++it)
      if (same(it->second, o)) return it->second;
    return {};
  }
  void forget(BlockId b, const std::vector<size_t>& added) {
    for (size_t h : added) {
      auto [first, last] = seen_.equal_range(h);
      for (auto it = first; it != last;) it = m_[it->second].parent == b ? seen_.erase(it) : std::next(it);
    }
  }

  Module& m_;
  Diagnostics& diags_;
  std::vector<int> uses_; // by value; at least its readers
  ValueMap map_;
  std::unordered_multimap<size_t, OpId> seen_;
};

} // namespace

std::vector<int64_t> permutationOf(Module& m, OpId o) {
  Diagnostics none;
  Rule rule;
  const OpRecord& record = m.record(o);
  if (record.scalar || record.element || record.constraint != Constraint::None ||
      !std::ranges::any_of(record.through, [](const Through& t) { return t.row == ThroughRow::Moving; }) ||
      !ruleOf(queryOf(m, o, none), rule) || rule.operands.size() != 1 || rule.results.size() != 1 ||
      rule.operands[0].dims.size() != rule.results[0].dims.size() ||
      !std::ranges::all_of(rule.factors, [](const Factor& f) { return f.kind == FactorKind::Pass; }))
    return {};
  std::vector<int64_t> perm;
  for (const DimMap& to : rule.results[0].dims) {
    const auto from = std::ranges::find_if(rule.operands[0].dims, [&](const DimMap& d) {
      return d.plain() && to.plain() && d.terms[0].factor == to.terms[0].factor;
    });
    if (from == rule.operands[0].dims.end()) return {};
    perm.push_back(from - rule.operands[0].dims.begin());
  }
  return std::ranges::is_sorted(perm) ? std::vector<int64_t>() : perm;
}

bool canonicalizePass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order) Simplifier(m, diags).run(m[f].body);
  DeadCode dead(m);
  for (FuncId f : m.order) dead.run(m[f].body);
  return !diags.hasErrors();
}

} // namespace dtc
