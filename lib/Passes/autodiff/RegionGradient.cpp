#include "autodiff/RegionGradient.h"
#include "analysis/Within.h"
#include "autodiff/GradientResiduals.h"
#include "dtc/IR/OpRecord.h"
#include <algorithm>
#include <memory>
#include <unordered_set>

namespace dtc {

static constexpr DiagKind kRegionGradient{
    "no-gradient", "'{0}' has no gradient, but the requested gradient passes through it"};

bool regionGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  switch (s.m.record(op).regions) {
  case RegionKind::For:
  case RegionKind::While: return loopGradient(s, op, results);
  case RegionKind::Cond: return condGradient(s, op, results);
  case RegionKind::Recompute: return recomputeGradient(s, op, results);
  case RegionKind::Local: return localGradient(s, op, results);
  default: break;
  }
  return s.shared.diags.fail(kRegionGradient, s.m[op].loc, s.m.record(op).name);
}

OpId extended(Differentiation& d, OpId op, std::span<const ValueId> operands,
              std::span<const TypeId> furtherResults) {
  Module& m = d.m;
  const Op old = m[op];
  std::vector<TypeId> types;
  for (uint32_t r = 0; r < old.numResults; ++r) types.push_back(m[m.result(op, r)].type);
  types.insert(types.end(), furtherResults.begin(), furtherResults.end());
  const OpId fresh = m.makeOp(old.kind, {}, 0, old.attrs, 0, old.loc);
  completeOp(m, fresh, operands, types);
  m[fresh].parent = old.parent;
  m[fresh].numRegions = old.numRegions;
  m[fresh].firstRegion = old.firstRegion;
  for (uint32_t k = 0; k < old.numRegions; ++k) m[m.region(fresh, k)].parentOp = fresh;
  for (uint32_t r = 0; r < old.numResults; ++r) {
    const Value& from = m[m.result(op, r)];
    Value& to = m[m.result(fresh, r)];
    to.sharding = from.sharding;
    to.name = from.name;
    to.loc = from.loc;
    d.replaced.set(m.result(op, r), m.result(fresh, r));
  }
  return fresh;
}

TypeId stackedType(Module& m, TypeId type, Dim rows) {
  Type t = m.types[type];
  t.dims.insert(t.dims.begin(), rows);
  return m.types.intern(std::move(t));
}

// --- cond: a cond over the backward branches; the forward branches yield the residuals ---

namespace {

class CondGradient {
public:
  CondGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results)
      : s_(s), m_(s.m), op_(op), results_(results) {}

  bool run() {
    back_ = m_.makeOp(m_[op_].kind, std::array{m_.operand(op_, 0)}, 0, {}, 2, m_[op_].loc);
    m_[back_].parent = s_.b.parent;
    for (uint32_t k = 0; k < 2; ++k) {
      const BlockId forward = m_.region(op_, k), backward = m_.region(back_, k);
      m_[backward].parentFunc = m_[forward].parentFunc;
      m_[backward].terminatorLoc = m_[forward].terminatorLoc;
      branches_.push_back(std::make_unique<Branch>(s_, forward, backward));
      if (!sweep(*branches_.back())) return false;
    }
    if (touched_.empty() && sliced_.empty()) return true;
    for (auto& branch : branches_) yield(*branch);
    keep();
    std::vector<TypeId> types;
    for (ValueId v : touched_) types.push_back(m_[v].type);
    for (ValueId v : sliced_) types.push_back(s_.sliceType(v));
    for (uint32_t k = 0; k < 2; ++k)
      fillBlock(m_, m_.region(back_, k), std::move(branches_[k]->sweep.out), std::move(branches_[k]->yields));
    completeOp(m_, back_, std::vector<ValueId>(m_.operands(back_).begin(), m_.operands(back_).end()), types);
    s_.out.push_back(back_);
    size_t next = 0;
    for (ValueId v : touched_) s_.set(v, m_.result(back_, next++));
    for (ValueId v : sliced_) s_.addSlice(v, m_.result(back_, next++));
    return true;
  }

private:
  struct Branch {
    Branch(GradientSweep& outer, BlockId forward, BlockId backward)
        : sweep(outer.shared, &outer, GradientSweep::Scope::Branch, forward, backward),
          residuals(outer.m, forward) {}
    GradientSweep sweep;
    Residuals residuals;
    std::vector<ValueId> yields;
  };

  bool sweep(Branch& branch) {
    GradientSweep& inner = branch.sweep;
    inner.b.loc = m_[op_].loc;
    inner.b.mesh = s_.b.mesh;
    inner.takeSlicesOf(s_);
    const std::vector<ValueId> yields = m_[inner.forward].yields;
    for (size_t r = 0; r < results_.size(); ++r)
      if (results_[r].valid()) inner.forwardCotangent(m_.result(op_, r), yields[r], results_[r]);
    std::vector<OpId> ops = m_[inner.forward].ops;
    const bool good = inner.run(ops);
    m_[inner.forward].ops = std::move(ops);
    for (ValueId v : inner.touched())
      if (seen_.insert(v).second) touched_.push_back(v);
    for (ValueId v : inner.slices ? inner.slices->sources : std::vector<ValueId>())
      if (seenSlices_.insert(v).second) sliced_.push_back(v);
    return good;
  }

  void yield(Branch& branch) {
    GradientSweep& inner = branch.sweep;
    for (ValueId v : touched_) branch.yields.push_back(inner.visibleOrZero(v));
    for (ValueId v : sliced_) {
      auto it = inner.slices->cotangents.find(v);
      branch.yields.push_back(it != inner.slices->cotangents.end() ? it->second
                                                                   : inner.b.constant(0, inner.sliceType(v)));
    }
    dropUnused(m_, branch.sweep.out, branch.yields);
    branch.residuals.collect(branch.sweep.out, branch.yields, {}, s_.shared.replaced);
  }

  // One additional result per residual; branches share results of the same type.
  struct Slots {
    std::vector<TypeId> types;
    std::vector<std::array<ValueId, 2>> values;
  };
  Slots slotsOfBoth() {
    Slots slots;
    std::unordered_map<TypeId, std::vector<size_t>> open; // of the first branch, available for sharing
    for (size_t k = 0; k < 2; ++k)
      for (ValueId v : branches_[k]->residuals.kept()) {
        const TypeId type = m_[v].type;
        if (k == 1 && !open[type].empty()) {
          slots.values[open[type].back()][1] = v;
          open[type].pop_back();
          continue;
        }
        if (k == 0) open[type].push_back(slots.values.size());
        slots.values.emplace_back()[k] = v;
        slots.types.push_back(type);
      }
    return slots;
  }

  // Makes the forward op return the residuals; a branch without a residual in a slot yields zeros.
  void keep() {
    const Slots slots = slotsOfBoth();
    const uint32_t before = m_[op_].numResults;
    if (!slots.types.empty()) {
      const std::vector<ValueId> operands(m_.operands(op_).begin(), m_.operands(op_).end());
      op_ = extended(s_.shared, op_, operands, slots.types);
    }
    for (uint32_t k = 0; k < 2; ++k) {
      for (size_t i = 0; i < slots.types.size(); ++i) {
        const BlockId forward = m_.region(op_, k);
        ValueId v = slots.values[i][k];
        if (v.valid())
          branches_[k]->residuals.provide(v, m_.result(op_, before + i));
        else
          v = zerosAtEnd(forward, slots.types[i]);
        m_[forward].yields.push_back(v);
      }
      std::vector<OpId> prologue;
      Builder b(m_, m_.region(back_, k), prologue, s_.shared.diags);
      b.common = s_.shared.taker;
      branches_[k]->residuals.substitute(b, branches_[k]->sweep.out, branches_[k]->yields);
    }
  }

  ValueId zerosAtEnd(BlockId block, TypeId type) {
    std::vector<OpId> ops;
    Builder b(m_, block, ops, s_.shared.diags);
    b.loc = m_[op_].loc;
    ValueId v = b.constant(0, type);
    m_[block].ops.push_back(ops[0]);
    return v;
  }

  GradientSweep& s_;
  Module& m_;
  OpId& op_;
  std::span<const ValueId> results_;
  OpId back_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::vector<ValueId> touched_, sliced_; // in any branch
  std::unordered_set<ValueId> seen_, seenSlices_;
};

} // namespace

bool condGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  return CondGradient(s, op, results).run();
}

// --- recompute: the forward pass runs a copy of the block; the backward pass runs the block followed by its
// gradient ---

// The backward pass does not repeat prints and checks.
static void dropEffects(Module& m, BlockId block) {
  std::vector<OpId> kept;
  for (OpId o : m[block].ops) {
    if (m.record(o).sideEffect) continue;
    for (uint32_t k = 0; k < m[o].numRegions; ++k) dropEffects(m, m.region(o, k));
    kept.push_back(o);
  }
  m[block].ops = std::move(kept);
}

// The yields of the backward block: cotangents of its arguments, of outer values, of slices.
static void finishRecompute(GradientSweep& s, GradientSweep& inner, OpId back, std::vector<OpId> ops) {
  Module& m = s.m;
  const BlockId block = m.region(back);
  const std::vector<ValueId> starts(m.operands(back).begin(), m.operands(back).end());
  std::vector<ValueId> given;
  std::vector<size_t> arguments; // arguments with a cotangent
  std::vector<TypeId> types;
  for (size_t i = 0; i < starts.size(); ++i)
    if (ValueId d = inner.visible(m[block].args[i]); d.valid()) given.push_back(d), arguments.push_back(i);
  for (ValueId v : inner.touched()) given.push_back(inner.visible(v));
  const std::vector<ValueId> sliced = inner.slices ? inner.slices->sources : std::vector<ValueId>();
  for (ValueId v : sliced) given.push_back(inner.slices->cotangents.at(v));
  if (given.empty()) return;
  for (ValueId v : given) types.push_back(m[v].type);
  ops.insert(ops.end(), inner.out.begin(), inner.out.end());
  dropUnused(m, ops, given);
  fillBlock(m, block, std::move(ops), std::move(given));
  m[back].parent = s.b.parent;
  completeOp(m, back, starts, types);
  s.out.push_back(back);
  size_t next = arguments.size();
  for (ValueId v : inner.touched()) s.set(v, m.result(back, next++));
  for (ValueId v : sliced) s.addSlice(v, m.result(back, next++));
  for (size_t i = 0; i < arguments.size(); ++i)
    s.forwardCotangent(m[block].args[arguments[i]], starts[arguments[i]], m.result(back, i));
}

bool recomputeGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  Module& m = s.m;
  const OpId back = op;
  const BlockId block = m.region(back);
  const std::vector<ValueId> yields = m[block].yields;
  CloneNames names;
  names.same = true;
  ValueMap copied;
  op = cloneOp(m, back, m[back].parent, copied, names);
  for (uint32_t r = 0; r < m[op].numResults; ++r) s.shared.replaced.set(m.result(back, r), m.result(op, r));
  dropEffects(m, block);

  GradientSweep inner(s.shared, &s, GradientSweep::Scope::Branch, block, block);
  inner.b.loc = m[back].loc;
  inner.b.mesh = s.b.mesh;
  inner.takeSlicesOf(s);
  for (size_t r = 0; r < results.size(); ++r)
    if (results[r].valid()) inner.forwardCotangent(m.result(back, r), yields[r], results[r]);
  std::vector<OpId> ops = m[block].ops;
  if (!inner.run(ops)) return false;

  for (OpId o : ops) markRecomputed(m, o, s.shared.taker); // recomputed ops
  finishRecompute(s, inner, back, std::move(ops));
  return true;
}

} // namespace dtc
