// Writes the solved shardings into the module and inserts a `reshard` wherever a value's sharding differs
// from the required one.
#include "propagate/InsertReshards.h"
#include "analysis/Within.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Sharding/ReshardBytes.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

class ReshardInserter {
public:
  ReshardInserter(PropagationState& s, const std::vector<OpForm>& forms, const PendingDecision& decision)
      : s_(s), m_(s.m), forms_(forms), decision_(decision),
        reshardKind_(s.m.registry->find(Constraint::Reshard)) {
    available_.resize(m_.values.size());
  }

  void run() {
    for (FuncId f : std::vector<FuncId>(m_.order)) {
      if (m_[f].spmd) continue;
      for (const FuncArg& a : m_[f].args) define(a.value, s_.shardingOf(s_.varOf[a.value.index]));
      rewriteBody(m_[f].body, s_.resultVars[f.index]);
      for (size_t r = 0; r < m_[f].results.size(); ++r)
        m_[f].results[r].sharding = s_.shardingOf(s_.resultVars[f.index][r]);
    }
  }

private:
  // One value is available in one or more shardings.
  struct AtHand {
    ShardingId sharding;
    ValueId value;
  };

  bool hasSharding(ValueId v) const { return v.index < s_.varOf.size() && s_.varOf[v.index] != kNoVar; }
  void define(ValueId v, ShardingId sharding) {
    m_[v].sharding = sharding;
    if (available_.size() < m_.values.size()) available_.resize(m_.values.size());
    available_[v.index] = {{sharding, v}};
  }

  ShardingId make(MeshId mesh, const std::vector<DimSharding>& dims, std::vector<PendingAxis> pending,
                  const std::vector<AxisRef>& replicated = {}) {
    Sharding sh{mesh, dims, std::move(pending), replicated};
    for (DimSharding& d : sh.dims) d.open = false, d.priority = -1;
    return m_.shardings.intern(std::move(sh));
  }

  // `v` in the sharding `wanted`: an available form, or a new reshard appended to out_.
  ValueId get(ValueId v, ShardingId wanted, ReshardReason reason) {
    const std::vector<AtHand>& forms = available_[v.index];
    for (const AtHand& a : forms)
      if (a.sharding == wanted) return a.value;
    const AtHand* best = nullptr;
    int64_t bestBytes = 0;
    for (const AtHand& a : forms) {
      int64_t bytes = estimate(v, a.sharding, wanted);
      if (!best || bytes < bestBytes) best = &a, bestBytes = bytes;
    }
    return reshard(v, *best, wanted, bestBytes, reason);
  }

  int64_t estimate(ValueId v, ShardingId from, ShardingId to) const {
    const Sharding &a = m_.shardings[from], &b = m_.shardings[to];
    if (a.mesh != b.mesh) return globalBytes(m_, v);
    return estimateReshardBytes(a, b, m_.shardings.mesh(a.mesh), globalBytes(m_, v));
  }

  ValueId reshard(ValueId original, AtHand from, ShardingId to, int64_t bytes, ReshardReason reason) {
    OpId o = m_.makeOp(reshardKind_, std::array{from.value}, 1, {}, 0,
                       reason.needs.valid() ? m_[reason.needs].loc : m_[original].loc);
    ValueId res = m_.result(o);
    m_[res].type = m_[original].type;
    m_[res].sharding = to;
    m_[res].loc = m_[original].loc;
    m_[o].parent = block_;
    out_->push_back(o);
    if (available_.size() < m_.values.size()) available_.resize(m_.values.size());
    available_[original.index].push_back({to, res});
    added_.push_back(original);
    reason.reshard = o;
    if (reason.kind == ReshardReason::Reduce && m_.shardings[from.sharding].pending.empty())
      reason.kind = ReshardReason::Operand; // already reduced for another use
    reason.cause = m_.definingOp(from.value);
    reason.bytes = bytes;
    takeWithin(o, reason);
    s_.report.reshards.push_back(reason);
    return res;
  }

  // The calls (`within`) that a reshard belongs to: for a reduction, those common to all ops that left the
  // sum pending; for a result, those of its op; otherwise those of its reader.
  void takeWithin(OpId reshard, const ReshardReason& reason) {
    if (!m_.strings.find("within").valid()) return; // no function has a contract
    if (!m_.shardings[m_[m_.operand(reshard, 0)].sharding].pending.empty()) {
      setWithin(m_, reshard, pendingWithin(m_.operand(reshard, 0)));
    } else {
      OpId of = reason.kind == ReshardReason::Result ? reason.cause : reason.needs;
      for (BlockId b = block_; !of.valid() && b.valid() && m_[b].parentOp.valid(); b = m_[of].parent)
        of = m_[b].parentOp;
      if (of.valid()) addWithin(m_, reshard, withinOf(m_, of));
    }
  }

  // The calls common to all ops that produce a pending value of `v`.
  std::vector<std::string> pendingWithin(ValueId v) const {
    std::vector<std::string> shared;
    std::vector<ValueId> work = {v};
    std::unordered_set<ValueId> seen = {v};
    bool first = true;
    while (!work.empty()) {
      const OpId o = m_.definingOp(work.back());
      work.pop_back();
      if (!o.valid()) return {}; // an argument or a carried value
      bool passes = false;
      for (ValueId x : m_.operands(o)) {
        if (!m_[x].sharding.valid() || m_.shardings[m_[x].sharding].pending.empty()) continue;
        passes = true;
        if (seen.insert(x).second) work.push_back(x);
      }
      if (passes) continue;
      std::vector<std::string> own;
      for (std::string_view p : withinPaths(m_, o)) own.emplace_back(p);
      shared = first ? own : commonCalls(shared, own);
      first = false;
    }
    return shared;
  }
  // The common prefix of "a.0/b.0" and "a.0/b.1" is "a.0".
  static std::vector<std::string> commonCalls(const std::vector<std::string>& a,
                                              const std::vector<std::string>& b) {
    std::vector<std::string> out;
    for (const std::string& x : a)
      for (const std::string& y : b) {
        size_t end = 0; // the end of the common calls
        for (size_t i = 0; i <= x.size() && i <= y.size(); ++i) {
          const char p = i < x.size() ? x[i] : '/', q = i < y.size() ? y[i] : '/';
          if (p == '/' && q == '/') end = i;
          if (p != q) break;
        }
        if (end > 0) out.push_back(x.substr(0, end));
      }
    return out;
  }

  void rewriteBody(BlockId b, const std::vector<VarId>& yieldVars) {
    std::vector<OpId> out;
    std::vector<OpId>* savedOut = out_;
    BlockId savedBlock = block_;
    size_t scope = added_.size();
    out_ = &out;
    block_ = b;
    const std::vector<OpId> ops = m_[b].ops;
    for (ValueId a : std::vector<ValueId>(m_[b].args)) reduceOnce(a);
    for (OpId o : ops) rewriteOp(o);
    for (size_t i = 0; i < m_[b].yields.size(); ++i) {
      ValueId v = m_[b].yields[i];
      if (yieldVars[i] == kNoVar) continue;
      ReshardReason why;
      why.kind = ReshardReason::Boundary;
      ValueId got = bring(v, s_.shardingOf(yieldVars[i]), why);
      m_[b].yields[i] = got;
    }
    m_[b].ops = std::move(out);
    // Forms that were added in this region are not visible outside of it.
    for (; added_.size() > scope; added_.pop_back()) available_[added_.back().index].pop_back();
    out_ = savedOut;
    block_ = savedBlock;
  }

  // `v` as a region operand or yield with this sharding. A literal has no sharding: if the target is pending,
  // it would be counted once per device, so it becomes a constant that can be made pending.
  ValueId bring(ValueId v, ShardingId wanted, ReshardReason why) {
    if (hasSharding(v)) return get(v, wanted, why);
    const Sharding& target = m_.shardings[wanted];
    const bool counts = target.pendingKind() == PendingKind::Sum || target.pendingKind() == PendingKind::Prod;
    if (!counts || isNeutral(v, target.pendingKind())) return v;
    Diagnostics quiet;
    Builder b(m_, block_, *out_, quiet);
    b.loc = m_[v].loc;
    const Value literal = m_[v];
    const ValueId constant = ops::constant(b, literal.type, literal.literal);
    s_.varOf.resize(m_.values.size(), kNoVar);
    s_.varOf[constant.index] = s_.newVar(constant, target.mesh, 0, {});
    define(constant, m_.shardings.replicated(target.mesh, 0));
    return get(constant, wanted, why);
  }
  bool isNeutral(ValueId v, PendingKind kind) const {
    if (m_[v].kind != ValueKind::Literal) return true; // a symbolic size has an integer type
    const Attr& a = m_.attrs[m_[v].literal];
    const double number = a.kind == Attr::Float ? a.f : static_cast<double>(a.i);
    return number == (kind == PendingKind::Sum ? 0 : 1);
  }

  // A carried value or a branch result that is pending by decision: if some use needs it reduced, reduce it
  // once, here.
  void reduceOnce(ValueId v) {
    if (!hasSharding(v) || !decision_.needsReduced[v.index]) return;
    const ShardingVar& var = s_.vars[s_.varOf[v.index]];
    if (var.pending.empty() || var.written) return;
    ReshardReason why;
    why.kind = ReshardReason::Reduce;
    const ValueId named = get(v, make(var.mesh, var.dims, {}, var.replicated), why);
    if (!m_.definingOp(v).valid()) return; // an argument keeps its name
    m_[named].name = m_[v].name;
    m_[v].name = StrId();
  }

  void rewriteOp(OpId o) {
    uint32_t r = s_.relationOf[o.index];
    if (r != ~0u) return rewriteRuleOp(o, s_.relations[r], forms_[r]);
    const OpRecord& rec = m_.record(o);
    if (rec.regions != RegionKind::None) return rewriteRegionOp(o, rec.regions);
    const uint32_t count =
        rec.constraint == Constraint::None ? m_[o].numOperands : 1; // other constraints read only
    for (uint32_t i = 0; i < count; ++i) {
      ValueId v = m_.operand(o, i);
      if (!hasSharding(v)) continue;
      ShardingId wanted = wantedByAnnotation(o, rec, i);
      ReshardReason why;
      why.kind = ReshardReason::Boundary;
      why.needs = o;
      ValueId got = get(v, wanted, why);
      m_.operands(o)[i] = got;
    }
    out_->push_back(o);
    for (uint32_t k = 0; k < m_[o].numResults; ++k)
      define(m_.result(o, k), s_.shardingOf(s_.varOf[m_.result(o, k).index]));
  }

  // The sharding that shard, barrier, reshard and call require of operand i.
  ShardingId wantedByAnnotation(OpId o, const OpRecord& rec, uint32_t i) {
    if (rec.isCall) {
      FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
      return s_.shardingOf(s_.varOf[m_[callee].args[i].value.index]);
    }
    if (rec.constraint == Constraint::Reshard) return cheapestFor(o);
    return s_.shardingOf(s_.varOf[m_.result(o).index]);
  }

  // The source form of an explicit reshard: the reduced form, if another use needs it anyway.
  ShardingId cheapestFor(OpId reshard) const {
    const ValueId v = m_.operand(reshard, 0);
    const ShardingId to = s_.shardingOf(s_.varOf[m_.result(reshard).index]);
    const std::vector<AtHand>& forms = available_[v.index];
    return std::ranges::min_element(forms, {}, [&](const AtHand& a) { return estimate(v, a.sharding, to); })
        ->sharding;
  }

  void rewriteRegionOp(OpId o, RegionKind kind) {
    const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
    const size_t firstArg = kind == RegionKind::For ? 1 : 0;
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      ValueId v = m_.operand(o, i);
      if (!hasSharding(v) && (i < firstStart || kind == RegionKind::Local)) continue;
      ReshardReason why;
      why.kind = ReshardReason::Boundary;
      why.needs = o;
      ShardingId wanted;
      if (i < firstStart)
        wanted = m_.shardings.replicated(s_.vars[s_.varOf[v.index]].mesh, 0);
      else if (kind == RegionKind::Local)
        wanted = m_[m_[m_.region(o)].args[i]].sharding;
      else
        wanted = s_.shardingOf(s_.varOf[m_[m_.region(o)].args[i - firstStart + firstArg].index]);
      if (!wanted.valid()) // a bind of `local` without a sharding is replicated
        wanted = m_.shardings.replicated(s_.vars[s_.varOf[v.index]].mesh, m_.typeOf(v).rank());
      ValueId got = bring(v, wanted, why);
      m_.operands(o)[i] = got;
    }
    if (kind != RegionKind::Local && kind != RegionKind::Fused)
      for (uint32_t k = 0; k < m_[o].numRegions; ++k) rewriteRegion(o, kind, k, firstArg);
    out_->push_back(o);
    if (kind == RegionKind::Local && m_.attr(o, "free").valid()) // hints, already used by the solver
      forEachOp(m_, m_.region(o), [&](OpId inner) {
        for (uint32_t r = 0; r < m_[inner].numResults; ++r) m_[m_.result(inner, r)].sharding = ShardingId();
      });
    for (uint32_t k = 0; k < m_[o].numResults; ++k) {
      if (kind == RegionKind::Local && m_[m_.result(o, k)].sharding.valid()) {
        settleLocal(m_.result(o, k));
        continue;
      }
      define(m_.result(o, k), s_.shardingOf(s_.varOf[m_.result(o, k).index]));
      reduceOnce(m_.result(o, k));
    }
  }

  // The result of a `local` region has the annotated sharding; if axes are free, a finer one may be required.
  void settleLocal(ValueId v) {
    const ShardingId given = m_[v].sharding, solved = s_.shardingOf(s_.varOf[v.index]);
    define(v, given);
    if (given == solved || m_.shardings[given].dims == m_.shardings[solved].dims) return;
    ReshardReason why;
    why.kind = ReshardReason::Result;
    const ValueId named = get(v, solved, why);
    m_[named].name = m_[v].name;
    m_[v].name = StrId();
  }

  void rewriteRegion(OpId o, RegionKind kind, uint32_t k, size_t firstArg) {
    BlockId b = m_.region(o, k);
    for (ValueId a : m_[b].args) define(a, s_.shardingOf(s_.varOf[a.index]));
    std::vector<VarId> vars;
    for (size_t i = 0; i < m_[b].yields.size(); ++i) {
      if (kind == RegionKind::While && k == 0) { // the predicate: equal on all devices
        vars.push_back(kNoVar);
        continue;
      }
      size_t numCarried = m_[b].args.size() - firstArg;
      bool stacked = kind == RegionKind::For && i >= numCarried;
      vars.push_back(stacked ? stackedVar(m_.result(o, i)) : s_.varOf[m_.result(o, i).index]);
    }
    rewriteBody(b, vars);
  }

  // The sharding of one slice of a stacked result: the result's without its first dim.
  VarId stackedVar(ValueId result) {
    ShardingVar slice = s_.vars[s_.varOf[result.index]];
    slice.dims.erase(slice.dims.begin());
    s_.vars.push_back(std::move(slice));
    return static_cast<VarId>(s_.vars.size() - 1);
  }

  void rewriteRuleOp(OpId o, const Relation& rel, const OpForm& form) {
    MeshId mesh;
    for (VarId v : rel.tensors)
      if (v != kNoVar) mesh = s_.vars[v].mesh;
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      ValueId v = m_.operand(o, i);
      if (!hasSharding(v)) continue;
      std::vector<PendingAxis> pending;
      if (form.takesPending[i]) pending = form.passed;
      if (form.joins[i]) pending = form.reduced;
      ReshardReason why;
      why.needs = o;
      why.kind =
          decision_.keepPending[v.index] && pending.empty() ? ReshardReason::Reduce : ReshardReason::Operand;
      ValueId got = get(v, make(mesh, form.operands[i], std::move(pending)), why);
      m_.operands(o)[i] = got;
    }
    out_->push_back(o);
    for (uint32_t k = 0; k < m_[o].numResults; ++k) settleResult(o, k, mesh, form);
  }

  // Gives result k the sharding that the op produces, and reshards it to the solved one if some use needs
  // that.
  void settleResult(OpId o, uint32_t k, MeshId mesh, const OpForm& form) {
    ValueId v = m_.result(o, k);
    VarId var = s_.varOf[v.index];
    std::vector<PendingAxis> pending = form.reducedOn[k];
    if (form.reduced.empty() && !form.passed.empty()) pending = form.passedOn[k];
    ShardingId given = make(mesh, form.results[k], std::move(pending));
    ShardingId solved = s_.shardingOf(var);
    bool sameDims = form.results[k] == s_.vars[var].dims;
    bool pendingIsFine = decision_.keepPending[v.index] && !decision_.needsReduced[v.index];
    if (sameDims && m_.shardings[given].pending == m_.shardings[solved].pending)
      given = solved; // rep(…) and the like
    define(v, given);
    if (given == solved || (sameDims && pendingIsFine && s_.vars[var].pending.empty())) return;
    ReshardReason why;
    why.kind = m_.shardings[given].pending.empty() ? ReshardReason::Result : ReshardReason::Reduce;
    ValueId named = get(v, solved, why);
    m_[named].name = m_[v].name; // the name stays with the value that was annotated
    m_[v].name = StrId();
  }

  PropagationState& s_;
  Module& m_;
  const std::vector<OpForm>& forms_;
  const PendingDecision& decision_;
  OpKind reshardKind_;
  std::vector<std::vector<AtHand>> available_; // by original value
  std::vector<ValueId> added_;                 // values with added forms, in order
  std::vector<OpId>* out_ = nullptr;
  BlockId block_;
};

} // namespace

void insertReshards(PropagationState& s, const std::vector<OpForm>& forms, const PendingDecision& decision) {
  ReshardInserter(s, forms, decision).run();
}

} // namespace dtc
