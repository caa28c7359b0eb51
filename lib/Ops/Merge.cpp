#include "Merge.h"
#include <cmath>
#include <string_view>

namespace dtc {

namespace {

// What exponentials are shifted by: exp(-inf - -inf) is no number, exp(-inf - 0) is 0.
ValueId shiftOf(CutOp& op, ValueId greatest, WhereInfinite where) {
  const ValueId none = where == WhereInfinite::IsInfinite
                           ? op.b.value("is_inf", {greatest})
                           : op.b.value("eq", {greatest, op.scalar(-INFINITY, greatest)});
  return op.b.value("select", {none, op.scalar(0, greatest), greatest});
}

// One tensor of several, along a new dim 0; one alone stays as it is.
ValueId stacked(CutOp& op, std::span<const ValueId> parts) {
  if (parts.size() == 1) return parts[0];
  return op.b.module.result(op.b.op("stack", parts, {{"dim", op.b.integer(0)}}));
}

// The tensors that were stacked along `dim`, `count` of them.
std::vector<ValueId> splitRows(CutOp& op, ValueId v, int64_t dim, size_t count) {
  if (count == 1) return {v};
  std::vector<ValueId> rows;
  for (size_t i = 0; i < count; ++i)
    rows.push_back(op.b.value("index_select", {v, op.b.literal(static_cast<double>(i), DType::I32)},
                              {{"dim", op.b.integer(dim)}}));
  return rows;
}

std::vector<int64_t> dimsOf(const CutOp& op) { return *op.whole.dimsAttr("dims", op.whole.type(0).rank()); }

} // namespace

ExponentialSum sumExponentials(CutOp& op, ValueId x, std::span<const int64_t> dims, WhereInfinite where,
                               std::span<const ValueId> extra) {
  const Arithmetic a{op.b};
  const int64_t first = 0;
  const int count = 2 + static_cast<int>(extra.size());
  const ValueId own = op.over("max", x, dims);
  const bool gathers = op.gatherIsCheaper(own, count);
  const ValueId greatest = gathers ? own : op.allReduce(own, PendingKind::Max);
  ExponentialSum out{shiftOf(op, greatest, where), {}, {}};
  out.sum = op.over("sum", a.exp(a.sub(x, out.shift)), dims);
  std::vector<ValueId> sums = {out.sum};
  sums.insert(sums.end(), extra.begin(), extra.end());
  if (!gathers) {
    sums = splitRows(op, op.allReduce(stacked(op, sums), PendingKind::Sum), 0, sums.size());
    out.sum = sums[0], out.extra.assign(sums.begin() + 1, sums.end());
    return out;
  }
  sums.insert(sums.begin(), own);
  const std::vector<ValueId> all = splitRows(op, op.gatherAll(stacked(op, sums)), 1, sums.size());
  out.shift = shiftOf(op, op.over("max", all[0], {&first, 1}, false), where);
  // A device's sum is of exp(x - its own greatest), and 0 where that is -inf, however low the greatest of all is.
  const ValueId scaled = a.mul(all[1], a.exp(a.sub(all[0], out.shift)));
  out.sum = op.over("sum", scaled, {&first, 1}, false);
  for (size_t i = 2; i < all.size(); ++i) out.extra.push_back(op.over("sum", all[i], {&first, 1}, false));
  return out;
}

std::vector<ValueId> gatherTogether(CutOp& op, std::span<const ValueId> parts) {
  bool large = false, alike = true;
  for (ValueId v : parts) {
    large = large || dtypeBytes(op.dtypeOf(v)) == 8;
    alike = alike && op.dtypeOf(v) == op.dtypeOf(parts[0]);
  }
  if (alike) return splitRows(op, op.gatherAll(stacked(op, parts)), 1, parts.size());
  const DType word = large ? DType::I64 : DType::I32, real = large ? DType::F64 : DType::F32;
  std::vector<ValueId> words;
  for (ValueId v : parts) {
    if (isFloat(op.dtypeOf(v)))
      words.push_back(op.b.value("bitcast", {op.convert(v, real)}, {{"dtype", op.b.word(dtypeName(word))}}));
    else
      words.push_back(op.convert(v, word));
  }
  std::vector<ValueId> all = splitRows(op, op.gatherAll(stacked(op, words)), 1, words.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const DType own = op.dtypeOf(parts[i]);
    if (isFloat(own)) all[i] = op.b.value("bitcast", {all[i]}, {{"dtype", op.b.word(dtypeName(real))}});
    all[i] = op.convert(all[i], own);
  }
  return all;
}

bool cutSoftmax(CutOp& op, std::vector<ValueId>& results) {
  const Arithmetic a{op.b};
  const ValueId x = op.wide(op.operands[0]);
  const auto [shift, sum, none] = sumExponentials(op, x, dimsOf(op), WhereInfinite::IsNaN);
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
  const auto [shift, sum, none] =
      sumExponentials(op, op.wide(op.operands[0]), dims, WhereInfinite::IsInfinite);
  ValueId y = a.add(a.log(sum), shift);
  if (!op.whole.boolAttr("keepdim")) y = op.b.value("squeeze", {y}, {{"dims", op.b.ints(dims)}});
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
