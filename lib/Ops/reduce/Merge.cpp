#include "reduce/Merge.h"
#include <cmath>
#include <string_view>

namespace dtc {

// The shift of exponentials: exp(-inf - -inf) is NaN, exp(-inf - 0) is 0.
static Expr shiftOf(Expr rowMax, WhereInfinite where) {
  const Expr none = where == WhereInfinite::IsInfinite ? is_inf(rowMax) : eq(rowMax, -INFINITY);
  return select(none, 0, rowMax);
}

// Stacks tensors along a new dim 0; a single tensor is returned unchanged.
static Expr stacked(const std::vector<Expr>& parts) {
  return parts.size() == 1 ? parts[0] : ops::stack(parts[0].builder(), parts, 0);
}

// The `count` tensors that were stacked along `dim`.
static std::vector<Expr> splitRows(Expr v, int64_t dim, size_t count) {
  if (count == 1) return {v};
  std::vector<Expr> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(index_select(v, i, {.dim = dim}));
  return rows;
}

static std::vector<int64_t> dimsOf(const ShardedOp& op) {
  return *op.global.dimsAttr("dims", op.global.type(0).rank());
}

ExponentialSum sumExponentials(ShardedOp& op, Expr x, std::span<const int64_t> dims, WhereInfinite where,
                               const std::vector<Expr>& extra) {
  const int64_t first = 0;
  const int count = 2 + static_cast<int>(extra.size());
  const Expr own = op.over(PendingKind::Max, x, dims);
  const bool gathers = op.gatherIsCheaper(own, count);
  const Expr rowMax = gathers ? own : op.allReduce(own, PendingKind::Max);
  ExponentialSum out{shiftOf(rowMax, where), {}, {}};
  out.sum = op.over(PendingKind::Sum, exp(x - out.shift), dims);
  std::vector<Expr> sums = {out.sum};
  sums.insert(sums.end(), extra.begin(), extra.end());
  if (!gathers) {
    sums = splitRows(op.allReduce(stacked(sums), PendingKind::Sum), 0, sums.size());
    out.sum = sums[0], out.extra.assign(sums.begin() + 1, sums.end());
    return out;
  }
  sums.insert(sums.begin(), own);
  const std::vector<Expr> all = splitRows(op.gatherAll(stacked(sums)), 1, sums.size());
  out.shift = shiftOf(op.over(PendingKind::Max, all[0], {&first, 1}, false), where);
  // A device's sum is of exp(x - its own max), and 0 if that is -inf, whatever the max over all devices is.
  const Expr scaled = all[1] * exp(all[0] - out.shift);
  out.sum = op.over(PendingKind::Sum, scaled, {&first, 1}, false);
  for (size_t i = 2; i < all.size(); ++i)
    out.extra.push_back(op.over(PendingKind::Sum, all[i], {&first, 1}, false));
  return out;
}

std::vector<Expr> gatherTogether(ShardedOp& op, const std::vector<Expr>& parts) {
  bool large = false, alike = true;
  for (Expr v : parts) {
    large = large || dtypeBytes(v.dtype()) == 8;
    alike = alike && v.dtype() == parts[0].dtype();
  }
  if (alike) return splitRows(op.gatherAll(stacked(parts)), 1, parts.size());
  const DType word = large ? DType::I64 : DType::I32, real = large ? DType::F64 : DType::F32;
  std::vector<Expr> words;
  for (Expr v : parts) {
    words.push_back(isFloat(v.dtype()) ? bitcast(v.as(real), word) : v.as(word));
  }
  std::vector<Expr> all = splitRows(op.gatherAll(stacked(words)), 1, words.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const DType own = parts[i].dtype();
    if (isFloat(own)) all[i] = bitcast(all[i], real);
    all[i] = all[i].as(own);
  }
  return all;
}

bool shardSoftmax(ShardedOp& op, std::vector<ValueId>& results) {
  const Expr x = op.wide(op.operands[0]);
  const auto [shift, sum, none] = sumExponentials(op, x, dimsOf(op), WhereInfinite::IsNaN);
  const Expr shifted = x - shift;
  const bool logarithm = std::string_view(op.global.record->name) == "log_softmax";
  const Expr weight = logarithm ? Expr() : exp(shifted);
  const Expr y = logarithm ? shifted - log(sum) : weight * reciprocal(sum);
  results.push_back(y.as(op.dtypeOf(op.operands[0])));
  return true;
}

bool shardLogsumexp(ShardedOp& op, std::vector<ValueId>& results) {
  const std::vector<int64_t> dims = dimsOf(op);
  const auto [shift, sum, none] =
      sumExponentials(op, op.wide(op.operands[0]), dims, WhereInfinite::IsInfinite);
  Expr y = log(sum) + shift;
  if (!op.global.boolAttr("keepdim")) y = squeeze(y, dims);
  results.push_back(y.as(op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
