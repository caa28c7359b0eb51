// Scans along a sharded dim: each device scans its shard, gathers the totals of all shards ((devices - 1)
// rows), combines those before its own, and applies the result to its scan.
#include "reduce/Merge.h"
#include <cmath>
#include <limits>
#include <string_view>

namespace dtc {

namespace {

constexpr int64_t kFirst = 0;

class PrefixScan {
public:
  explicit PrefixScan(ShardedOp& op)
      : op_(op), b_(op.b), name_(op.global.record->name),
        dim_(*op.global.dimAttr("dim", op.global.type(0).rank())), reverse_(op.global.boolAttr("reverse")),
        axes_(op.operandFactor(0, static_cast<size_t>(dim_)).axes) {}

  void sums(std::vector<ValueId>& results) {
    const bool product = name_ == "cumprod";
    const PendingKind total = product ? PendingKind::Prod : PendingKind::Sum;
    const Expr x = op_.wide(op_.operands[0]);
    const Expr others = beforeOwn(op_.gatherAll(op_.over(total, x, {&dim_, 1})), product ? 1 : 0);
    const Expr carry = op_.over(total, others, {&kFirst, 1}, false);
    const Expr own = scan(x, 0);
    finish(product ? carry * own : carry + own, results);
  }

  void logarithms(std::vector<ValueId>& results) {
    const Expr x = op_.wide(op_.operands[0]);
    const Expr totals = op_.gatherAll(logsumexp(x, {.dims = {dim_}, .keepdim = true}));
    const Expr carry = logsumexp(beforeOwn(totals, -INFINITY), {.dims = {0}, .keepdim = false});
    const Expr own = scan(x, 0);
    // log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)); infinities are not subtracted.
    const Expr maximum = max(carry, own);
    const Expr distance = -abs(carry - own);
    const Expr more = log1p(exp(distance));
    const Expr infinite = is_inf(maximum);
    finish(maximum + select(infinite, 0, more), results);
  }

  // Values with indices: the last in scan order among equals; any NaN counts as equal.
  void extremes(std::vector<ValueId>& results) {
    const PendingKind best = name_ == "cummax" ? PendingKind::Max : PendingKind::Min;
    const Expr x = op_.operand(0), total = op_.over(best, x, {&dim_, 1});
    const std::vector<Expr> all = gatherTogether(op_, {total, lastIndex(x, total)});
    // Devices that do not count get the first device's value; that one has no predecessor.
    const int64_t first = reverse_ ? op_.devices() - 1 : 0;
    const Expr values = beforeOwn(all[0], op_.row(all[0], first));
    const Expr carry = op_.over(best, values, {&kFirst, 1}, false);
    const Expr same = isSame(values, carry);
    const Expr counts = same & (all[1] >= 0);
    const Expr positions = beforeOwn(select(counts, all[1], none()), none());
    const Expr carryIndex = positionOf(latest(positions, kFirst, false));
    const Expr own = scan(x, 0), found = scan(x, 1);
    const Expr isFirst = eq(op_.index(axes_), first);
    const Expr value = select(isFirst, own, best == PendingKind::Max ? max(carry, own) : min(carry, own));
    const Expr unchanged = isSame(own, value);
    const Expr here = unchanged & (found >= 0);
    results = {value, select(here, found + offset(), carryIndex)};
  }

private:
  Expr offset() { return op_.shardOffset(op_.global.type(0).dims[static_cast<size_t>(dim_)], axes_); }

  // The scan of this shard alone, with the same op.
  Expr scan(Expr x, uint32_t result) {
    if (!scanned_.valid()) {
      Module& m = b_.module;
      const AttrList attrs = {{m.strings.intern("dim"), b_.integer(dim_)},
                              {m.strings.intern("reverse"), b_.boolean(reverse_)},
                              {m.strings.intern("exclusive"), b_.boolean(op_.global.boolAttr("exclusive"))}};
      scanned_ = b_.op(m.registry->find(name_), std::array{ValueId(x)}, attrs);
    }
    return op_.value(b_.module.result(scanned_, result));
  }

  // From [devices, …], the values of devices before this one in scan order; `neutral` for the others.
  Expr beforeOwn(Expr all, ops::Arg neutral) {
    std::vector<Dim> dims(op_.typeOf(all).rank(), Dim(1));
    dims[0] = op_.typeOf(all).dims[0];
    const Expr device = ops::iota(b_, b_.module.tensorType(DType::I32, dims), {.dim = 0});
    const Expr own = op_.index(axes_);
    return select(reverse_ ? device > own : device < own, all, neutral);
  }

  // The last index in scan order is the max, or for a reverse scan the min.
  [[nodiscard]] int32_t none() const { return reverse_ ? std::numeric_limits<int32_t>::max() : -1; }
  Expr positionOf(Expr last) { // -1 where there is none
    return reverse_ ? select(eq(last, none()), -1, last) : last;
  }
  Expr latest(Expr positions, int64_t dim, bool keepdim) {
    if (reverse_) return op_.over(PendingKind::Min, positions, {&dim, 1}, keepdim);
    return max(op_.over(PendingKind::Max, positions, {&dim, 1}, keepdim),
               none()); // an empty shard's is the min i32
  }

  Expr isSame(Expr x, Expr best) {
    const Expr equal = eq(x, best);
    return isFloat(op_.dtypeOf(x)) ? equal | is_nan(x) : equal;
  }

  // The global index of the last element of the shard that equals `total`; -1 if there is none.
  Expr lastIndex(Expr x, Expr total) {
    const auto at = static_cast<size_t>(dim_);
    std::vector<Dim> dims(op_.typeOf(x).rank(), Dim(1));
    dims[at] = op_.typeOf(x).dims[at];
    const Expr start = offset();
    const Expr position =
        ops::iota(b_, b_.module.tensorType(DType::I32, dims), {.offset = start, .dim = dim_});
    return positionOf(latest(select(isSame(x, total), position, none()), dim_, true));
  }

  void finish(Expr y, std::vector<ValueId>& results) {
    results.push_back(op_.convert(y, op_.dtypeOf(op_.operands[0])));
  }

  ShardedOp& op_;
  Builder& b_;
  std::string_view name_;
  int64_t dim_;
  bool reverse_;
  const std::vector<AxisRef>& axes_;
  OpId scanned_;
};

} // namespace

bool shardScan(ShardedOp& op, std::vector<ValueId>& results) {
  PrefixScan scan(op);
  const std::string_view name = op.global.record->name;
  if (name == "logcumsumexp")
    scan.logarithms(results);
  else if (name == "cumsum" || name == "cumprod")
    scan.sums(results);
  else
    scan.extremes(results);
  return true;
}

} // namespace dtc
