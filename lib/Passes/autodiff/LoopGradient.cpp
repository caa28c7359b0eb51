// Gradients of loops: a loop over the same iterations in reverse order.
#include "autodiff/GradientResiduals.h"
#include "autodiff/RegionGradient.h"
#include "dtc/IR/Region.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Counted.h"

namespace dtc {

static constexpr DiagKind kLoopBounds{
    "unbounded-loop", "the number of iterations of '{0}' is unknown, but its gradient needs {1} of each "
                      "iteration: use constant bounds, or 0 and a symbol, or add {max_trips = N}"};

static constexpr DiagKind kUnboundedLoop{
    "unbounded-loop", "the number of iterations of '{0}' is unbounded: add {max_trips = N} so "
                      "that residuals can be allocated"};

namespace {

// The gradient of a `for`, or of a `while` with an added iteration counter.
class LoopGradient {
public:
  LoopGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results)
      : s_(s), m_(s.m), op_(op), results_(results), isFor_(m_.record(op).regions == RegionKind::For),
        forward_(m_.region(op, isFor_ ? 0 : 1)), iterations_(isFor_ ? iterationCount(m_, op) : std::nullopt),
        back_(m_.makeOp(m_.registry->find(RegionKind::For), {}, 0, {}, 1, m_[op].loc)),
        backward_(m_.region(back_)),
        iteration_(m_.makeBlockArg(backward_, m_.tensorType(DType::I32, std::initializer_list<int64_t>{}))),
        inner_(s.shared, &s, GradientSweep::Scope::Loop, forward_, backward_),
        head_(m_, backward_, headOps_, s.shared.diags) {}

  bool run() {
    m_[back_].parent = s_.b.parent;
    m_[backward_].parentFunc = m_[forward_].parentFunc;
    m_[backward_].terminatorLoc = m_[forward_].terminatorLoc;
    inner_.b.loc = head_.loc = m_[op_].loc;
    inner_.b.mesh = s_.b.mesh;
    if (!isFor_ && !m_.attr(op_, "max_trips").valid())
      return s_.shared.diags.fail(kUnboundedLoop, m_[op_].loc, m_.record(op_).name);
    if (iterations_ && !s_.shared.local && m_[m_.operand(op_, 0)].kind == ValueKind::Literal) {
      const int64_t lo = m_.attrs[m_[m_.operand(op_, 0)].literal].i;
      inner_.slices = {m_[forward_].args[0], forward_, lo, *iterations_, {}, {}};
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
  [[nodiscard]] size_t numCarried() const { return m_[op_].numOperands - (isFor_ ? 2 : 0); }
  [[nodiscard]] ValueId start(size_t i) const { return m_.operand(op_, i + (isFor_ ? 2 : 0)); }
  [[nodiscard]] ValueId argument(size_t i) const { return m_[forward_].args[i + (isFor_ ? 1 : 0)]; }

  // Outer values with a slice per iteration.
  [[nodiscard]] std::vector<ValueId> sliced() const {
    return inner_.slices ? inner_.slices->sources : std::vector<ValueId>();
  }

  // A carried value's cotangent is carried in the reverse direction.
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
    for (size_t k = 0; k < sums.size(); ++k)
      inner_.forwardCotangent(argument(carried_[k]), yields[carried_[k]], sums[k]);
  }

  // The cotangent of a stacked result is sliced per iteration.
  void takeStacked() {
    const std::vector<ValueId> yields = m_[forward_].yields;
    for (size_t k = numCarried(); k < yields.size(); ++k)
      if (results_[k].valid() && s_.onPath(yields[k]))
        inner_.forwardCotangent(m_.result(op_, k), yields[k], row(inner_.b, results_[k], position()));
  }

  ValueId row(Builder& b, ValueId stacked, ValueId at) {
    return ops::index_select(Expr(b, stacked), at, {.dim = 0});
  }
  ValueId i32(int64_t v) { return m_.makeLiteral(m_.attrs.integer(v), DType::I32, m_[op_].loc); }

  // The forward loop's index in this iteration: hi - 1, …, lo.
  ValueId index() {
    if (index_.valid()) return index_;
    const ValueId lo = m_.operand(op_, 0), hi = m_.operand(op_, 1);
    if (m_[lo].kind != ValueKind::Literal)
      return index_ = Expr(head_, lo) + (Expr(head_, hi) - iteration_) - 1;
    const int64_t before = m_.attrs[m_[lo].literal].i - 1;
    if (m_[hi].kind == ValueKind::Literal)
      return index_ = m_.attrs[m_[hi].literal].i + before - Expr(head_, iteration_);
    index_ = Expr(head_, hi) - iteration_;
    if (before != 0) index_ = Expr(head_, index_) + before;
    return index_;
  }

  // The ordinal of the forward iteration: its index in stacked values.
  ValueId position() {
    if (position_.valid()) return position_;
    if (!isFor_) return position_ = index();
    const ValueId lo = m_.operand(op_, 0);
    const bool zero = m_[lo].kind == ValueKind::Literal && m_.attrs[m_[lo].literal].i == 0;
    return position_ = zero ? index() : Expr(head_, index()) - lo;
  }

  void yield() {
    for (size_t i : carried_) yields_.push_back(inner_.visibleOrZero(argument(i)));
    for (ValueId v : inner_.touched()) yields_.push_back(inner_.visible(v));
    for (ValueId v : sliced()) yields_.push_back(inner_.slices->cotangents.at(v));
    dropUnused(m_, inner_.out, yields_);
  }

  // The forward loop returns the residuals: stacked if the iteration count is known, else in buffers.
  bool keep() {
    const ValueId forwardIndex = isFor_ ? m_[forward_].args[0] : ValueId();
    Residuals residuals(m_, forward_);
    residuals.collect(inner_.out, yields_, forwardIndex, s_.shared.replaced);
    const std::vector<ValueId>& kept = residuals.kept();
    if (!kept.empty() && !iterations_ && !m_.attr(op_, "max_trips").valid())
      return s_.shared.diags.fail(kLoopBounds, m_[op_].loc, m_.record(op_).name,
                                  counted(kept.size(), "value"));
    if (isFor_ && iterations_) {
      if (!kept.empty()) stack(residuals);
    } else {
      keepInBuffers(residuals);
    }
    if (isFor_) residuals.provide(forwardIndex, index());
    head_.common = s_.shared.taker;
    residuals.substitute(head_, inner_.out, yields_);
    return true;
  }

  // Each iteration writes its residuals into its row of carried buffers with max_trips rows; a `while` counts
  // its iterations for the backward loop. Stacking needs a known iteration count.
  void keepInBuffers(Residuals& residuals) {
    const std::vector<ValueId>& kept = residuals.kept();
    const auto numResults = m_[op_].numResults;
    std::vector<ValueId> operands(m_.operands(op_).begin(), m_.operands(op_).end());
    std::vector<TypeId> types;
    std::vector<OpId> ops;
    Builder before(m_, s_.forward, s_.before, s_.shared.diags), end(m_, forward_, ops, s_.shared.diags);
    before.loc = end.loc = m_[op_].loc;
    const ValueId at = isFor_ ? forwardPosition(end) : countIterations(end, operands, types);
    writeRows(kept, at, before, end, operands, types);
    m_[forward_].ops.insert(m_[forward_].ops.end(), ops.begin(), ops.end());
    if (types.empty()) return;
    op_ = extended(s_.shared, op_, operands, types);
    if (!isFor_) {
      count_ = m_.result(op_, numResults);
      index_ = Expr(head_, count_) - 1 - iteration_;
    }
    for (size_t k = 0; k < kept.size(); ++k)
      residuals.provide(kept[k], row(head_, m_.result(op_, numResults + (isFor_ ? 0 : 1) + k), position()));
  }

  // An additional carried value of the forward loop, with its start.
  ValueId carryAlso(ValueId start, TypeId type, std::vector<ValueId>& operands, std::vector<TypeId>& types) {
    operands.push_back(start);
    types.push_back(type);
    if (!isFor_) m_.makeBlockArg(m_.region(op_, 0), type);
    return m_.makeBlockArg(forward_, type);
  }

  // The completed iterations of a `while`.
  ValueId countIterations(Builder& end, std::vector<ValueId>& operands, std::vector<TypeId>& types) {
    const ValueId count = carryAlso(i32(0), m_[iteration_].type, operands, types);
    m_[forward_].yields.push_back(Expr(end, count) + 1);
    return count;
  }

  // The completed iterations of a `for`.
  ValueId forwardPosition(Builder& end) {
    const ValueId lo = m_.operand(op_, 0), at = m_[forward_].args[0];
    const bool zero = m_[lo].kind == ValueKind::Literal && m_.attrs[m_[lo].literal].i == 0;
    return zero ? at : Expr(end, at) - lo;
  }

  // One buffer per residual; each iteration writes row `at`.
  void writeRows(const std::vector<ValueId>& kept, ValueId at, Builder& before, Builder& end,
                 std::vector<ValueId>& operands, std::vector<TypeId>& types) {
    if (kept.empty()) return;
    const Dim rows(m_.attrs[m_.attr(op_, "max_trips")].i);
    for (ValueId v : kept) {
      const TypeId type = stackedType(m_, m_[v].type, rows);
      const ValueId buffer = carryAlso(before.constant(0, type), type, operands, types);
      std::vector<ValueId> starts(m_.types[type].rank(), i32(0));
      starts[0] = at;
      const Expr value = ops::expand_dims(Expr(end, v), {0});
      m_[forward_].yields.push_back(ops::dynamic_update_slice(Expr(end, buffer), value, starts));
    }
  }

  // Each residual as a stacked result of the forward loop; it may be stacked already.
  void stack(Residuals& residuals) {
    std::unordered_map<ValueId, uint32_t> yieldOf;
    const std::vector<ValueId> yields = m_[forward_].yields;
    for (size_t k = numCarried(); k < yields.size(); ++k)
      yieldOf.emplace(yields[k], static_cast<uint32_t>(k));
    std::vector<TypeId> types;
    for (ValueId v : residuals.kept()) {
      auto [it, isNew] = yieldOf.emplace(v, static_cast<uint32_t>(m_[forward_].yields.size()));
      if (!isNew) continue;
      m_[forward_].yields.push_back(v);
      types.push_back(stackedType(m_, m_[v].type, *iterations_));
    }
    const std::vector<ValueId> operands(m_.operands(op_).begin(), m_.operands(op_).end());
    op_ = extended(s_.shared, op_, operands, types);
    for (ValueId v : residuals.kept()) {
      const ValueId stacked = m_.result(op_, yieldOf.at(v));
      if (StrId of = m_[v].name; of.valid()) s_.shared.name(stacked, std::string(m_.strings[of]) + "_kept");
      residuals.provide(v, row(head_, stacked, position()));
    }
  }

  void finish() {
    std::vector<ValueId> operands = {isFor_ ? m_.operand(op_, 0) : i32(0),
                                     isFor_ ? m_.operand(op_, 1) : count_};
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
    for (ValueId v : sliced()) types.push_back(stackedType(m_, inner_.sliceType(v), *iterations_));
    dropUnused(m_, inner_.out, yields_);
    fillBlock(m_, backward_, std::move(inner_.out), std::move(yields_));
    completeOp(m_, back_, operands, types);
    s_.out.push_back(back_);
    setGradients();
  }

  void setGradients() {
    uint32_t next = static_cast<uint32_t>(carried_.size());
    for (ValueId v : inner_.touched()) s_.set(v, m_.result(back_, next++));
    for (size_t k = 0; k < carried_.size(); ++k)
      s_.forwardCotangent(argument(carried_[k]), start(carried_[k]), m_.result(back_, k));
    for (ValueId v : sliced()) s_.accumulate(v, inOrder(m_.result(back_, next++), v));
  }

  // The backward loop stacks in reverse order: flip the slices, and pad them to the full extent.
  ValueId inOrder(ValueId stacked, ValueId source) {
    const Expr v = ops::flip(Expr(s_.b, stacked), {0});
    const Type type = m_.typeOf(source);
    if (type.dims[0] == *iterations_) return v;
    std::vector<int64_t> low(type.rank(), 0), high(type.rank(), 0);
    low[0] = inner_.slices->lo;
    high[0] = type.dims[0].value() - inner_.slices->lo - iterations_->value();
    return ops::pad(v, {.low = low, .high = high});
  }

  GradientSweep& s_;
  Module& m_;
  OpId& op_;
  std::span<const ValueId> results_;
  bool isFor_;
  BlockId forward_;
  std::optional<Dim> iterations_;
  OpId back_;
  BlockId backward_;
  ValueId iteration_; // the backward iteration, counting up
  GradientSweep inner_;
  std::vector<OpId> headOps_; // inserted at the front of the backward block
  Builder head_;
  std::vector<size_t> carried_; // indices of the carried values whose cotangents are carried
  std::vector<ValueId> yields_;
  ValueId index_, position_;
  ValueId count_; // of a `while`: its iteration count
};

} // namespace

bool loopGradient(GradientSweep& s, OpId& op, std::span<const ValueId> results) {
  return LoopGradient(s, op, results).run();
}

} // namespace dtc
