#include "Merge.h"
#include <cmath>
#include <string_view>

namespace dtc {

namespace {

struct Arithmetic {
  Builder& b;
  ValueId add(ValueId x, ValueId y) const { return b.value("add", {x, y}); }
  ValueId sub(ValueId x, ValueId y) const { return b.value("sub", {x, y}); }
  ValueId mul(ValueId x, ValueId y) const { return b.value("mul", {x, y}); }
  ValueId exp(ValueId x) const { return b.value("exp", {x}); }
  ValueId log(ValueId x) const { return b.value("log", {x}); }
};

// What exponentials are shifted by: exp(-inf - -inf) is no number, exp(-inf - 0) is 0.
ValueId shiftOf(CutOp& op, ValueId greatest, WhereInfinite where) {
  const ValueId none = where == WhereInfinite::IsInfinite
                           ? op.b.value("is_inf", {greatest})
                           : op.b.value("eq", {greatest, op.scalar(-INFINITY, greatest)});
  return op.b.value("select", {none, op.scalar(0, greatest), greatest});
}

std::vector<int64_t> dimsOf(const CutOp& op) { return *op.whole.dimsAttr("dims", op.whole.type(0).rank()); }

} // namespace

ExponentialSum sumExponentials(CutOp& op, ValueId x, std::span<const int64_t> dims, WhereInfinite where) {
  const Arithmetic a{op.b};
  const int64_t first = 0;
  const ValueId own = op.over("max", x, dims);
  if (!op.gatherIsCheaper(own, 2)) {
    const ValueId shift = shiftOf(op, op.allReduce(own, PendingKind::Max), where);
    return {shift, op.allReduce(op.over("sum", a.exp(a.sub(x, shift)), dims), PendingKind::Sum)};
  }
  const ValueId sum = op.over("sum", a.exp(a.sub(x, shiftOf(op, own, where))), dims);
  const ValueId both = op.b.value("stack", {own, sum}, {{"dim", op.b.integer(0)}});
  const ValueId all = op.gatherAll(both); // [devices, 2, rows…]
  auto part = [&](int64_t i) {
    return op.b.value("index_select", {all, op.b.literal(static_cast<double>(i), DType::I32)},
                      {{"dim", op.b.integer(1)}});
  };
  const ValueId greatest = part(0);
  const ValueId shift = shiftOf(op, op.over("max", greatest, {&first, 1}, false), where);
  // A device's sum is of exp(x - its own shift).
  const ValueId scaled = a.mul(part(1), a.exp(a.sub(shiftOf(op, greatest, where), shift)));
  return {shift, op.over("sum", scaled, {&first, 1}, false)};
}

bool cutSoftmax(CutOp& op, std::vector<ValueId>& results) {
  const Arithmetic a{op.b};
  const ValueId x = op.wide(op.operands[0]);
  const auto [shift, sum] = sumExponentials(op, x, dimsOf(op), WhereInfinite::IsNaN);
  const ValueId shifted = a.sub(x, shift);
  const bool logarithm = std::string_view(op.whole.record->name) == "log_softmax";
  const ValueId y =
      logarithm ? a.sub(shifted, a.log(sum)) : a.mul(a.exp(shifted), op.b.value("reciprocal", {sum}));
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

bool cutLogsumexp(CutOp& op, std::vector<ValueId>& results) {
  const Arithmetic a{op.b};
  const std::vector<int64_t> dims = dimsOf(op);
  const auto [shift, sum] = sumExponentials(op, op.wide(op.operands[0]), dims, WhereInfinite::IsInfinite);
  ValueId y = a.add(a.log(sum), shift);
  if (!op.whole.boolAttr("keepdim")) y = op.b.value("squeeze", {y}, {{"dims", op.b.ints(dims)}});
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
