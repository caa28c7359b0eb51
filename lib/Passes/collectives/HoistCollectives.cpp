// Hoists collectives out of loops: loop-invariant collectives move before the loop, and the reduction of an
// accumulated sum moves after it.
#include "analysis/PartitionReshard.h"
#include "analysis/Within.h"
#include "collectives/CollectiveSteps.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/analysis/Clone.h"
#include <algorithm>

namespace dtc {

namespace {

class Hoister {
public:
  Hoister(Module& m, Diagnostics& diags) : m_(m), diags_(diags), kinds_(*m.registry) {
    const UseCounts uses(m);
    for (uint32_t v = 0; v < m.values.size(); ++v) uses_.push_back(uses[ValueId(v)]);
    varies_.assign(m.values.size(), false);
  }

  void run(FuncId f) {
    mesh_ = meshOfFunction(m_, f);
    if (mesh_.valid()) run(m_[f].body);
  }

private:
  // Inner loops first, so that a collective hoisted from one may be hoisted from the next.
  void run(BlockId block) {
    std::vector<OpId> out;
    Builder b(m_, block, out, diags_);
    b.mesh = mesh_;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      remap(m_.operands(o));
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (!isIsolated(m_.record(o).regions)) run(m_.region(o, r));
      b.loc = m_[o].loc;
      const RegionKind kind = m_.record(o).regions;
      const bool loop = kind == RegionKind::For || kind == RegionKind::While;
      if (loop) moveInvariants(o, b);
      if (loop) reduceStarts(o, b);
      out.push_back(o);
      if (loop) reduceResults(b);
    }
    m_[block].ops = std::move(out);
    remap(m_[block].yields);
  }

  void remap(std::span<ValueId> values) {
    for (ValueId& v : values) v = map_(v);
  }

  // --- Loop-invariant collectives ---

  // True if the body runs at least once.
  bool surelyRuns(OpId loop) const {
    if (m_.record(loop).regions != RegionKind::For) return false;
    const Value &lo = m_[m_.operand(loop, 0)], &hi = m_[m_.operand(loop, 1)];
    return lo.kind == ValueKind::Literal && hi.kind == ValueKind::Literal &&
           m_.attrs[lo.literal].i < m_.attrs[hi.literal].i;
  }

  // Marks the values that may differ between iterations in a block of a loop.
  void markVarying(BlockId body) {
    varies_.resize(m_.values.size());
    for (ValueId a : m_[body].args) varies_[a.index] = true;
    for (OpId o : m_[body].ops) {
      const OpRecord& rec = m_.record(o);
      bool varies = m_[o].numRegions != 0 || rec.isCall || rec.sideEffect || rec.async != AsyncForm::None;
      for (ValueId v : m_.operands(o)) varies = varies || varies_[v.index];
      for (uint32_t r = 0; r < m_[o].numResults; ++r) varies_[m_.result(o, r).index] = varies;
    }
  }
  bool invariant(OpId o) const { return m_[o].numResults > 0 && !varies_[m_.result(o).index]; }

  // The invariant collectives of the body, preceded by the ops that only they need. If the body may never
  // run, only collectives whose operands come from other hoisted collectives or from outside: an op on a
  // branch that is not taken must not fail.
  void moveInvariants(OpId loop, Builder& b) {
    const bool runs = surelyRuns(loop);
    for (uint32_t k = 0; k < m_[loop].numRegions; ++k) {
      const BlockId body = m_.region(loop, k);
      markVarying(body);
      std::vector<OpId>& ops = m_[body].ops;
      std::unordered_map<OpId, bool> moves; // by op of the body
      for (OpId o : ops) moves.emplace(o, false);
      for (OpId o : ops)
        if (isCollective(o) && invariant(o) && !isGatheredWeight(loop, o) &&
            (runs || producersMove(o, moves)))
          moves[o] = true;
      for (size_t i = ops.size(); i-- > 0;) {
        if (!moves[ops[i]]) continue;
        for (ValueId v : m_.operands(ops[i]))
          if (OpId p = m_.definingOp(v); p.valid() && moves.contains(p)) moves[p] = true;
      }
      for (OpId o : ops)
        if (moves[o]) m_[o].parent = b.parent, b.out.push_back(o);
      std::erase_if(ops, [&](OpId o) { return moves[o]; });
    }
  }
  // True for a gather of a value whose gradient the loop adds up: in a loop over micro-batches, a weight that is
  // sharded (ZeRO-3) must not be kept gathered. The loop carries a value of the type of its shard.
  bool isGatheredWeight(OpId loop, OpId o) const {
    if (m_.record(o).collective != CollectiveKind::AllGather) return false;
    const TypeId shard = m_[m_.operand(o, 0)].type;
    for (uint32_t r = 0; r < m_[loop].numResults; ++r)
      if (m_[m_.result(loop, r)].type == shard) return true;
    return false;
  }
  bool isCollective(OpId o) const {
    const OpRecord& rec = m_.record(o);
    return rec.isCollective() && rec.async == AsyncForm::None && m_[o].numOperands > 0;
  }
  bool producersMove(OpId o, const std::unordered_map<OpId, bool>& moves) const {
    return std::ranges::all_of(m_.operands(o), [&](ValueId v) {
      auto it = moves.find(m_.definingOp(v));
      return it == moves.end() || it->second;
    });
  }

  // --- Accumulated sums ---

  struct Total { // one carried value that is reduced after the loop
    ValueId result;
    AttrList attrs; // of its reductions
  };

  // If every iteration adds reduced values to a carried one that has no other reader, the iterations
  // accumulate pending values, and the total is reduced once. The start becomes pending: kept on device 0 of
  // the axes.
  void reduceStarts(OpId loop, Builder& b) {
    totals_.clear();
    const RegionKind kind = m_.record(loop).regions;
    const size_t firstStart = kind == RegionKind::For ? 2 : 0, firstArg = kind == RegionKind::For ? 1 : 0;
    const BlockId body = m_.region(loop, m_[loop].numRegions - 1);
    for (size_t c = 0; c + firstArg < m_[body].args.size(); ++c) {
      const ValueId arg = m_[body].args[c + firstArg];
      if (kind == RegionKind::While && usesOf(m_[m_.region(loop, 0)].args[c]) != 0) continue;
      std::vector<OpId> reductions;
      if (!addsUp(body, m_[body].yields[c], arg, reductions)) continue;
      const ValueId start = m_.operand(loop, firstStart + c);
      if (m_[start].kind == ValueKind::Literal || m_[start].kind == ValueKind::Symbol) continue;
      ReshardPlans plans(m_);
      ReshardEmitter emitter(b, plans);
      const PendingKind op = *parsePendingKind(m_.strings[m_.attrs[reductionOf(m_, reductions[0])].text]);
      const ValueId pending = isZero(start) && op == PendingKind::Sum
                                  ? start
                                  : emitter.makePending(start, axesOf(m_, reductions[0]), op);
      m_.operands(loop)[firstStart + c] = pending;
      takeOut(body, reductions);
      for (OpId r : reductions) addWithin(m_, reductions[0], withinOf(m_, r));
      totals_.push_back({m_.result(loop, static_cast<uint32_t>(c)), m_[reductions[0]].attrs});
    }
  }

  void reduceResults(Builder& b) {
    for (const Total& t : totals_) {
      const OpId o = m_.makeOp(kinds_.allReduce, std::array{t.result}, 1, t.attrs, 0, b.loc);
      m_[o].parent = b.parent;
      const ValueId v = m_.result(o);
      m_[v].type = m_[t.result].type;
      m_[v].loc = m_[t.result].loc;
      std::swap(m_[v].name, m_[t.result].name);
      b.out.push_back(o);
      map_.set(t.result, v);
    }
    totals_.clear();
  }

  uint32_t usesOf(ValueId v) const { return v.index < uses_.size() ? uses_[v.index] : 2; }

  // True if `total` is a tree of one combining op over one use of `arg`, and of equal reductions that have no
  // other readers.
  bool addsUp(BlockId body, ValueId total, ValueId arg, std::vector<OpId>& reductions) const {
    if (usesOf(arg) != 1) return false;
    std::vector<ValueId> work = {total};
    size_t argSeen = 0;
    OpKind combiner = kNoOpKind;
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      if (v == arg) {
        ++argSeen;
        continue;
      }
      const OpId o = m_.definingOp(v);
      if (!o.valid() || m_[o].parent != body || usesOf(v) != 1 || m_[v].type != m_[arg].type) return false;
      if (m_[o].kind == kinds_.allReduce) {
        if (!reductions.empty() &&
            withoutOrigin(m_, m_[o].attrs) != withoutOrigin(m_, m_[reductions[0]].attrs))
          return false;
        reductions.push_back(o);
        continue;
      }
      if (m_[o].numOperands != 2 || (combiner != kNoOpKind && m_[o].kind != combiner)) return false;
      combiner = m_[o].kind;
      for (ValueId x : m_.operands(o)) work.push_back(x);
    }
    return argSeen == 1 && !reductions.empty() && combines(combiner, reductions[0]);
  }

  bool combines(OpKind combiner, OpId reduction) const {
    const AttrId written = m_.attr(reduction, "op");
    const auto kind = written ? parsePendingKind(m_.strings[m_.attrs[written].text]) : PendingKind::Sum;
    return combiner != kNoOpKind && kind && *kind == (*m_.registry)[combiner].combines;
  }

  bool isZero(ValueId v) const {
    const Attr* a = splatOf(m_, v);
    return a && ((a->kind == Attr::Int && a->i == 0) || (a->kind == Attr::Float && a->f == 0));
  }

  // The body uses the operands of the reductions instead.
  void takeOut(BlockId body, const std::vector<OpId>& reductions) {
    ValueMap direct;
    for (OpId r : reductions) direct.set(m_.result(r), m_.operand(r, 0));
    std::vector<OpId>& ops = m_[body].ops;
    std::erase_if(ops, [&](OpId o) { return std::ranges::find(reductions, o) != reductions.end(); });
    for (OpId o : ops)
      for (ValueId& v : m_.operands(o)) v = direct(v);
  }

  Module& m_;
  Diagnostics& diags_;
  CollectiveKinds kinds_;
  MeshId mesh_;
  std::vector<uint32_t> uses_;
  std::vector<bool> varies_; // by value: differs between iterations of its loop
  std::vector<Total> totals_;
  ValueMap map_;
};

} // namespace

void hoistCollectives(Module& m, std::span<const FuncId> functions, Diagnostics& diags) {
  Hoister hoister(m, diags); // uses are counted once
  for (FuncId f : functions) hoister.run(f);
}

} // namespace dtc
