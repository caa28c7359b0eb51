// Scans along a cut dim: each device scans its piece, hears the totals of all pieces ((devices - 1) rows), combines those that
// come before its own, and puts that before what it has.
#include "Merge.h"
#include <cmath>
#include <limits>
#include <string_view>

namespace dtc {

namespace {

constexpr int64_t kFirst = 0;

class PrefixScan {
public:
  explicit PrefixScan(CutOp& op)
      : op_(op), b_(op.b), name_(op.whole.record->name),
        dim_(*op.whole.dimAttr("dim", op.whole.type(0).rank())), reverse_(op.whole.boolAttr("reverse")),
        axes_(op.operandCut(0, static_cast<size_t>(dim_)).axes) {}

  void sums(std::vector<ValueId>& results) {
    const bool product = name_ == "cumprod";
    const char* total = product ? "prod" : "sum";
    const ValueId x = op_.wide(op_.operands[0]);
    const ValueId others = beforeOwn(op_.gatherAll(op_.over(total, x, {&dim_, 1})), product ? 1 : 0);
    const ValueId carry = op_.over(total, others, {&kFirst, 1}, false);
    finish(b_.value(product ? "mul" : "add", {carry, scan(x, 0)}), results);
  }

  void logarithms(std::vector<ValueId>& results) {
    const ValueId x = op_.wide(op_.operands[0]);
    const ValueId totals = op_.gatherAll(op_.over("logsumexp", x, {&dim_, 1}));
    const ValueId carry = op_.over("logsumexp", beforeOwn(totals, -INFINITY), {&kFirst, 1}, false);
    const ValueId own = scan(x, 0), zero = op_.scalar(0, x);
    // log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)); infinities are not subtracted.
    const ValueId most = b_.value("max", {carry, own});
    const ValueId apart = b_.value("neg", {b_.value("abs", {b_.value("sub", {carry, own})})});
    const ValueId more = b_.value("log1p", {b_.value("exp", {apart})});
    const ValueId infinite = b_.value("is_inf", {most});
    finish(b_.value("add", {most, b_.value("select", {infinite, zero, more})}), results);
  }

  // Values and where they stand: the last, in the scan's order, of equals; any NaN counts as equal.
  void extremes(std::vector<ValueId>& results) {
    const char* best = name_ == "cummax" ? "max" : "min";
    const ValueId x = op_.operands[0], total = op_.over(best, x, {&dim_, 1});
    const ValueId parts[] = {total, lastPlace(x, total)};
    const std::vector<ValueId> all = gatherTogether(op_, parts);
    // The first device's value stands for those that do not count; it has none before it.
    const int64_t first = reverse_ ? op_.devices() - 1 : 0;
    const ValueId values = beforeOwn(all[0], op_.row(all[0], first));
    const ValueId carry = op_.over(best, values, {&kFirst, 1}, false);
    const ValueId counts = b_.value("and", {isSame(values, carry), b_.value("ge", {all[1], integer(0)})});
    const ValueId places = beforeOwn(b_.value("select", {counts, all[1], none()}), none());
    const ValueId carryPlace = placeOf(latest(places, kFirst, false));
    const ValueId own = scan(x, 0), found = scan(x, 1);
    const ValueId isFirst = b_.value("eq", {op_.index(axes_), integer(static_cast<double>(first))});
    const ValueId value = b_.value("select", {isFirst, own, b_.value(best, {carry, own})});
    const ValueId here = b_.value("and", {isSame(own, value), b_.value("ge", {found, integer(0)})});
    results = {value, b_.value("select", {here, b_.value("add", {found, offset()}), carryPlace})};
  }

private:
  ValueId integer(double v) { return b_.literal(v, DType::I32); }
  ValueId offset() { return op_.pieceOffset(op_.whole.type(0).dims[static_cast<size_t>(dim_)], axes_); }

  // The scan of this piece alone: the same op.
  ValueId scan(ValueId x, uint32_t result) {
    if (scanned_.valid()) return b_.module.result(scanned_, result);
    const ValueId in[] = {x};
    scanned_ = b_.op(name_, in,
                     {{"dim", b_.integer(dim_)},
                      {"reverse", b_.boolean(reverse_)},
                      {"exclusive", b_.boolean(op_.whole.boolAttr("exclusive"))}});
    return b_.module.result(scanned_, result);
  }

  // Of [devices, …] what devices before this one (in the scan's order) have; `neutral` of the others.
  ValueId beforeOwn(ValueId all, double neutral) { return beforeOwn(all, op_.scalar(neutral, all)); }
  ValueId beforeOwn(ValueId all, ValueId neutral) {
    Module& m = b_.module;
    std::vector<Dim> dims(op_.typeOf(all).rank(), Dim(1));
    dims[0] = op_.typeOf(all).dims[0];
    TypeId type[] = {m.tensorType(DType::I32, dims)};
    const ValueId device = m.result(b_.op("iota", {}, {{"dim", b_.integer(0)}}, type));
    const ValueId before = b_.value(reverse_ ? "gt" : "lt", {device, op_.index(axes_)});
    return b_.value("select", {before, all, neutral});
  }

  // The last place in the scan's order is the greatest, or from behind the least.
  [[nodiscard]] double noneValue() const { return reverse_ ? std::numeric_limits<int32_t>::max() : -1; }
  ValueId none() { return integer(noneValue()); }
  ValueId placeOf(ValueId last) { // -1 where there is none
    return reverse_ ? b_.value("select", {b_.value("eq", {last, none()}), integer(-1), last}) : last;
  }
  ValueId latest(ValueId places, int64_t dim, bool keepdim) {
    if (!reverse_) { // of an empty piece the greatest is the least i32
      return b_.value("max", {op_.over("max", places, {&dim, 1}, keepdim), none()});
    }
    return op_.over("min", places, {&dim, 1}, keepdim);
  }

  ValueId isSame(ValueId x, ValueId best) {
    const ValueId equal = b_.value("eq", {x, best});
    return isFloat(op_.dtypeOf(x)) ? b_.value("or", {equal, b_.value("is_nan", {x})}) : equal;
  }

  // Where the last element of the piece that is `total` stands in the whole; of none: -1.
  ValueId lastPlace(ValueId x, ValueId total) {
    Module& m = b_.module;
    const auto at = static_cast<size_t>(dim_);
    std::vector<Dim> dims(op_.typeOf(x).rank(), Dim(1));
    dims[at] = op_.typeOf(x).dims[at];
    TypeId type[] = {m.tensorType(DType::I32, dims)};
    const ValueId start[] = {offset()};
    const ValueId place = m.result(b_.op("iota", start, {{"dim", b_.integer(dim_)}}, type));
    return placeOf(latest(b_.value("select", {isSame(x, total), place, none()}), dim_, true));
  }

  void finish(ValueId y, std::vector<ValueId>& results) {
    results.push_back(op_.convert(y, op_.dtypeOf(op_.operands[0])));
  }

  CutOp& op_;
  Builder& b_;
  std::string_view name_;
  int64_t dim_;
  bool reverse_;
  const std::vector<AxisRef>& axes_;
  OpId scanned_;
};

} // namespace

bool cutScan(CutOp& op, std::vector<ValueId>& results) {
  PrefixScan scan(op);
  const std::string_view name = op.whole.record->name;
  if (name == "logcumsumexp")
    scan.logarithms(results);
  else if (name == "cumsum" || name == "cumprod")
    scan.sums(results);
  else
    scan.extremes(results);
  return true;
}

} // namespace dtc
