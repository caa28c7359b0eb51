// The gradient of a `local` region: another `local` region, with the residuals of the forward one as
// arguments.
#include "autodiff/LocalGradient.h"
#include "autodiff/GradientResiduals.h"
#include "autodiff/RegionGradient.h"
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>

namespace dtc {

static constexpr DiagKind kLocalPending{
    "pending-gradient",
    "'{0}' has no gradient: a result is a partial {1}, but only partial sums and averages have a gradient"};

namespace {

class LocalGradient {
public:
  LocalGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results)
      : s_(s), m_(s.m), op_(op), results_(results), forward_(m_.region(op)), local_(m_, op, s.shared.paths),
        mesh_(m_.shardings.mesh(local_.varying.mesh())),
        back_(m_.makeOp(m_[op].kind, {}, 0, {}, 1, m_[op].loc)), backward_(m_.region(back_)),
        inner_(s.shared, &s, GradientSweep::Scope::Branch, forward_, backward_),
        head_(m_, backward_, headOps_, s.shared.diags) {}

  bool run() {
    m_[back_].parent = s_.b.parent;
    m_[backward_].parentFunc = m_[forward_].parentFunc;
    m_[backward_].terminatorLoc = m_[forward_].terminatorLoc;
    inner_.b.loc = head_.loc = m_[op_].loc;
    inner_.b.mesh = head_.mesh = local_.varying.mesh();
    s_.shared.local = &local_;
    const bool good = enter() && sweep();
    s_.shared.local = nullptr;
    if (!good) return false;
    leave();
    if (yields_.empty()) return true;
    dropUnused(m_, inner_.out, yields_);
    keep();
    finish();
    return true;
  }

private:
  // An argument of the backward region: `value` outside, sharded as given.
  ValueId bind(ValueId value, TypeId local, ShardingId sharding) {
    starts_.push_back(value);
    const ValueId arg = m_.makeBlockArg(backward_, local);
    m_[arg].sharding = sharding;
    return arg;
  }

  // A result's cotangent is passed in sharded as the result; if the result was pending, every device has the
  // full cotangent.
  bool enter() {
    const std::vector<ValueId> yields = m_[forward_].yields;
    for (uint32_t r = 0; r < results_.size(); ++r) {
      if (!results_[r].valid()) continue;
      Sharding s = m_.shardings[m_[m_.result(op_, r)].sharding];
      double devices = 1; // the number of devices averaged over
      for (const PendingAxis& p : s.pending) {
        if (p.kind != PendingKind::Sum && p.kind != PendingKind::Avg)
          return s_.shared.diags.fail(kLocalPending, m_[op_].loc, m_.record(op_).name, pendingName(p.kind));
        if (p.kind == PendingKind::Avg) devices *= static_cast<double>(mesh_.axisSize(p.axis));
      }
      s.pending.clear();
      ValueId d = bind(results_[r], m_[yields[r]].type, m_.shardings.intern(std::move(s)));
      if (devices != 1) d = Expr(inner_.b, d) / devices;
      inner_.accumulate(yields[r], d, SIZE_MAX, local_.varying(yields[r]));
    }
    return true;
  }

  bool sweep() {
    std::vector<OpId> ops = m_[forward_].ops;
    if (!inner_.run(ops)) return false;
    m_[forward_].ops = std::move(ops);
    return true;
  }

  // Cotangents of arguments are returned sharded as the arguments, and pending if devices use them
  // differently.
  void leave() {
    const std::vector<ValueId> args = m_[forward_].args;
    for (size_t i = 0; i < args.size(); ++i) {
      const ValueId d = s_.onPath(args[i]) ? inner_.visible(args[i]) : ValueId();
      if (!d.valid()) continue;
      Sharding s;
      s.mesh = local_.varying.mesh();
      s.dims.resize(m_.typeOf(args[i]).rank());
      if (m_[args[i]].sharding.valid()) s = m_.shardings[m_[args[i]].sharding];
      for (PendingAxis& p : s.pending)
        p.kind = PendingKind::Avg; // the same on all devices; for a sum, each has the full value
      std::vector<PendingAxis> pending;
      for (const AxisRef& a : local_.varying.axes(local_.pending(args[i])))
        pending.push_back({a, PendingKind::Sum});
      s.pending.insert(s.pending.end(), pending.begin(), pending.end());
      yields_.push_back(d);
      to_.push_back(m_.operand(op_, i));
      types_.push_back(m_[to_.back()].type);
      shardings_.push_back(m_.shardings.intern(std::move(s)));
    }
  }

  // How a forward value is passed on: an invariant value as is; a varying one as its device's row of a new
  // dim 0, sharded along the axes along which it varies. An unevenly sharded dim keeps its sharding.
  struct Packed {
    TypeId global;
    ShardingId sharding;
    bool row = false;
  };
  Packed pack(ValueId v, const Varying& varying) {
    Type global = m_.typeOf(v);
    Sharding s;
    s.mesh = varying.mesh();
    AxisSet rest = varying(v);
    for (Dim& d : global.dims) {
      DimSharding& dimSharding = s.dims.emplace_back();
      if (d.isStatic()) continue;
      for (const AxisRef& a : m_.dims.expr(d).axes) {
        dimSharding.parts.push_back({a, 0});
        rest &= ~varying.ofAxis(a);
      }
      d = m_.dims.unsharded(d);
    }
    if (!rest) return {m_.types.intern(std::move(global)), m_.shardings.intern(std::move(s)), false};
    DimSharding rows;
    for (const AxisRef& a : varying.axes(rest)) rows.parts.push_back({a, 0});
    global.dims.insert(global.dims.begin(), Dim(varying.sizeOf(rest)));
    s.dims.insert(s.dims.begin(), std::move(rows));
    return {m_.types.intern(std::move(global)), m_.shardings.intern(std::move(s)), true};
  }

  // The residuals of the backward region: arguments are taken from the forward region's operands, other
  // values are yielded by it.
  void keep() {
    Residuals residuals(m_, forward_);
    residuals.collect(inner_.out, yields_, {}, s_.shared.replaced);
    std::vector<ValueId> computed;
    for (ValueId v : residuals.kept()) {
      if (m_[v].kind != ValueKind::BlockArg) {
        computed.push_back(v);
        continue;
      }
      residuals.provide(v, bind(m_.operand(op_, m_[v].position), m_[v].type, m_[v].sharding));
    }
    if (!computed.empty()) yieldForward(residuals, computed);
    head_.common = s_.shared.taker;
    residuals.substitute(head_, inner_.out, yields_);
  }

  void yieldForward(Residuals& residuals, const std::vector<ValueId>& computed) {
    const Varying varying(m_, op_); // also of residuals of nested loops
    std::vector<Packed> packs;
    std::vector<TypeId> types;
    std::vector<ValueId> rows;
    std::vector<OpId> ends;
    Builder end(m_, forward_, ends, s_.shared.diags);
    end.loc = m_[op_].loc;
    for (ValueId v : computed) {
      packs.push_back(pack(v, varying));
      types.push_back(packs.back().global);
      rows.push_back(packs.back().row ? ops::expand_dims(Expr(end, v), {0}) : v);
    }
    m_[forward_].ops.insert(m_[forward_].ops.end(), ends.begin(), ends.end());
    m_[forward_].yields.insert(m_[forward_].yields.end(), rows.begin(), rows.end());
    const uint32_t before = m_[op_].numResults;
    const std::vector<ValueId> operands(m_.operands(op_).begin(), m_.operands(op_).end());
    op_ = extended(s_.shared, op_, operands, types);
    for (size_t k = 0; k < rows.size(); ++k) {
      const ValueId given = m_.result(op_, before + k);
      m_[given].sharding = packs[k].sharding;
      const ValueId arg = bind(given, m_[rows[k]].type, packs[k].sharding);
      residuals.provide(computed[k], packs[k].row ? ops::squeeze(Expr(head_, arg), {0}) : arg);
    }
  }

  void finish() {
    dropUnused(m_, inner_.out, yields_);
    fillBlock(m_, backward_, std::move(inner_.out), std::move(yields_));
    completeOp(m_, back_, starts_, types_);
    for (size_t i = 0; i < to_.size(); ++i) m_[m_.result(back_, i)].sharding = shardings_[i];
    s_.out.push_back(back_);
    for (size_t i = 0; i < to_.size(); ++i) s_.accumulate(to_[i], m_.result(back_, i));
  }

  GradientSweep& s_;
  Module& m_;
  OpId& op_;
  std::span<const ValueId> results_;
  BlockId forward_;
  LocalCotangents local_;
  Mesh mesh_;
  OpId back_;
  BlockId backward_;
  GradientSweep inner_;
  std::vector<OpId> headOps_; // inserted at the front of the backward block
  Builder head_;
  std::vector<ValueId> starts_, yields_, to_; // to_: the values whose cotangents are yielded
  std::vector<TypeId> types_;
  std::vector<ShardingId> shardings_;
};

} // namespace

bool localGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  return LocalGradient(s, op, results).run();
}

} // namespace dtc
