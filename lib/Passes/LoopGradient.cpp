// Gradients of loops: a loop that walks the same trips from the last to the first.
#include "GradientResiduals.h"
#include "RegionGradient.h"
#include "dtc/IR/Region.h"

namespace dtc {

static constexpr DiagKind kLoopBounds{
    "loop-bounds",
    "'{0}' cannot be differentiated: its gradient reads values of each trip ({1} of them), and only bounds "
    "that are numbers, or 0 and a symbol, say how many trips to keep them of"};

namespace {

class ForGradient {
public:
  ForGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results)
      : s_(s), m_(s.m), op_(op), results_(results), forward_(m_.region(op)), trips_(tripCount(m_, op)),
        back_(m_.makeOp(m_[op].kind, {}, 0, {}, 1, m_[op].loc)), backward_(m_.region(back_)),
        trip_(m_.makeBlockArg(backward_, m_[m_.operand(op, 0)].type)),
        inner_(s.shared, &s, GradientSweep::Scope::Loop, forward_, backward_),
        head_(m_, backward_, headOps_, s.shared.diags) {}

  bool run() {
    m_[back_].parent = s_.b.parent;
    m_[backward_].parentFunc = m_[forward_].parentFunc;
    m_[backward_].terminatorLoc = m_[forward_].terminatorLoc;
    inner_.b.loc = head_.loc = m_[op_].loc;
    inner_.b.mesh = s_.b.mesh;
    if (trips_ && m_[m_.operand(op_, 0)].kind == ValueKind::Literal) {
      slices_ = {m_[forward_].args[0], m_.attrs[m_[m_.operand(op_, 0)].literal].i, *trips_, {}, {}};
      inner_.slices = &slices_;
    }
    carry();
    takeStacked();
    std::vector<OpId> ops = m_[forward_].ops;
    if (!inner_.run(ops)) return false;
    m_[forward_].ops = std::move(ops);
    yield();
    if (yields_.empty()) return true;
    if (!keep()) return false;
    finish();
    return true;
  }

private:
  [[nodiscard]] size_t numCarried() const { return m_[op_].numOperands - 2; }
  [[nodiscard]] ValueId start(size_t i) const { return m_.operand(op_, i + 2); }
  [[nodiscard]] ValueId argument(size_t i) const { return m_[forward_].args[i + 1]; }

  // A carried value's cotangent is carried the other way.
  void carry() {
    const std::vector<ValueId> yields = m_[forward_].yields;
    std::vector<ValueId> sums;
    for (size_t i = 0; i < numCarried(); ++i) {
      if (!s_.onPath(m_.result(op_, i)) && !s_.onPath(argument(i)) && !s_.onPath(yields[i])) continue;
      carried_.push_back(i);
      sums.push_back(m_.makeBlockArg(backward_, m_[argument(i)].type));
      if (StrId of = m_[argument(i)].name; of.valid())
        s_.shared.name(sums.back(), "d_" + std::string(m_.strings[of]));
    }
    for (size_t k = 0; k < sums.size(); ++k) inner_.accumulate(yields[carried_[k]], sums[k]);
  }

  // Of what was stacked, each trip takes its own cotangent.
  void takeStacked() {
    const std::vector<ValueId> yields = m_[forward_].yields;
    for (size_t k = numCarried(); k < yields.size(); ++k)
      if (results_[k].valid() && s_.onPath(yields[k]))
        inner_.accumulate(yields[k], row(inner_.b, results_[k], position()));
  }

  ValueId row(Builder& b, ValueId stacked, ValueId at) {
    return b.value("index_select", {stacked, at}, {{"dim", b.integer(0)}});
  }
  ValueId i32(int64_t v) { return m_.makeLiteral(m_.attrs.integer(v), DType::I32, m_[op_].loc); }

  // The forward loop's index in this trip: hi - 1, …, lo.
  ValueId index() {
    if (index_.valid()) return index_;
    const ValueId lo = m_.operand(op_, 0), hi = m_.operand(op_, 1);
    if (m_[lo].kind != ValueKind::Literal) {
      ValueId last = head_.value("sub", {head_.value("add", {lo, head_.value("sub", {hi, trip_})}), i32(1)});
      return index_ = last;
    }
    const int64_t before = m_.attrs[m_[lo].literal].i - 1;
    if (m_[hi].kind == ValueKind::Literal)
      return index_ = head_.value("sub", {i32(m_.attrs[m_[hi].literal].i + before), trip_});
    index_ = head_.value("sub", {hi, trip_});
    if (before != 0) index_ = head_.value("add", {index_, i32(before)});
    return index_;
  }

  // How many trips were before this one: where it stands in what is stacked.
  ValueId position() {
    if (position_.valid()) return position_;
    const ValueId lo = m_.operand(op_, 0);
    const bool zero = m_[lo].kind == ValueKind::Literal && m_.attrs[m_[lo].literal].i == 0;
    return position_ = zero ? index() : head_.value("sub", {index(), lo});
  }

  void yield() {
    for (size_t i : carried_) yields_.push_back(inner_.visibleOrZero(argument(i)));
    for (ValueId v : inner_.touched()) yields_.push_back(inner_.visible(v));
    for (ValueId v : slices_.sources) yields_.push_back(slices_.cotangents.at(v));
    dropUnused(m_, inner_.out, yields_);
  }

  // The forward loop stacks what the backward one reads.
  bool keep() {
    const ValueId forwardIndex = m_[forward_].args[0];
    Residuals residuals(m_, forward_);
    residuals.collect(inner_.out, yields_, forwardIndex);
    const std::vector<ValueId>& kept = residuals.kept();
    if (!kept.empty() && !trips_) {
      s_.shared.diags.error(kLoopBounds, m_[op_].loc, m_.record(op_).name, kept.size());
      return false;
    }
    if (!kept.empty()) stack(residuals);
    residuals.provide(forwardIndex, index());
    residuals.substitute(head_, inner_.out, yields_);
    return true;
  }

  // Each kept value as a stacked result of the forward loop; the user may have stacked it already.
  void stack(Residuals& residuals) {
    std::unordered_map<ValueId, uint32_t> places;
    const std::vector<ValueId> yields = m_[forward_].yields;
    for (size_t k = numCarried(); k < yields.size(); ++k) places.emplace(yields[k], static_cast<uint32_t>(k));
    std::vector<TypeId> types;
    for (ValueId v : residuals.kept()) {
      auto [it, isNew] = places.emplace(v, static_cast<uint32_t>(m_[forward_].yields.size()));
      if (!isNew) continue;
      m_[forward_].yields.push_back(v);
      types.push_back(stackedType(m_, m_[v].type, *trips_));
    }
    const std::vector<ValueId> operands(m_.operands(op_).begin(), m_.operands(op_).end());
    op_ = extended(s_.shared, op_, operands, types);
    for (ValueId v : residuals.kept()) {
      const ValueId stacked = m_.result(op_, places.at(v));
      if (StrId of = m_[v].name; of.valid()) s_.shared.name(stacked, std::string(m_.strings[of]) + "_kept");
      residuals.provide(v, row(head_, stacked, position()));
    }
  }

  void finish() {
    std::vector<ValueId> operands = {m_.operand(op_, 0), m_.operand(op_, 1)};
    std::vector<TypeId> types;
    for (size_t i : carried_) {
      const ValueId d = results_[i];
      operands.push_back(d.valid() ? d : s_.zeros(argument(i)));
      types.push_back(m_[argument(i)].type);
    }
    for (ValueId v : inner_.touched()) {
      operands.push_back(s_.visibleOrZero(v));
      types.push_back(m_[v].type);
    }
    for (ValueId v : slices_.sources)
      types.push_back(stackedType(m_, m_[slices_.cotangents.at(v)].type, *trips_));
    dropUnused(m_, inner_.out, yields_);
    fillBlock(m_, backward_, std::move(inner_.out), std::move(yields_));
    completeOp(m_, back_, operands, types);
    s_.out.push_back(back_);
    giveBack();
  }

  void giveBack() {
    uint32_t next = static_cast<uint32_t>(carried_.size());
    for (ValueId v : inner_.touched()) s_.set(v, m_.result(back_, next++));
    for (size_t k = 0; k < carried_.size(); ++k) s_.accumulate(start(carried_[k]), m_.result(back_, k));
    for (ValueId v : slices_.sources) s_.accumulate(v, inOrder(m_.result(back_, next++), v));
  }

  // The last trip came first: slices are turned round, and padded to all rows of what they are slices of.
  ValueId inOrder(ValueId stacked, ValueId source) {
    const int64_t zero = 0;
    ValueId v = s_.b.value("flip", {stacked}, {{"dims", s_.b.ints({&zero, 1})}});
    const Type type = m_.typeOf(source);
    if (type.dims[0] == *trips_) return v;
    std::vector<int64_t> low(type.rank(), 0), high(type.rank(), 0);
    low[0] = slices_.lo;
    high[0] = type.dims[0].value() - slices_.lo - trips_->value();
    return s_.b.value("pad", {v}, {{"low", s_.b.ints(low)}, {"high", s_.b.ints(high)}});
  }

  GradientSweep& s_;
  Module& m_;
  OpId& op_;
  std::span<const ValueId> results_;
  BlockId forward_;
  std::optional<Dim> trips_;
  OpId back_;
  BlockId backward_;
  ValueId trip_; // counts up
  GradientSweep inner_;
  std::vector<OpId> headOps_; // come first in the backward block
  Builder head_;
  GradientSweep::Slices slices_;
  std::vector<size_t> carried_; // numbers of the carried values whose cotangents are carried
  std::vector<ValueId> yields_;
  ValueId index_, position_;
};

} // namespace

bool forGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  return ForGradient(s, op, results).run();
}

} // namespace dtc
