// var, std, norm, and the means of group_norm and batch_norm, for sharded rows.
#include "reduce/Merge.h"
#include "reduce/ReduceParts.h"
#include <cmath>

namespace dtc {

// The number of a row's elements on this device, at least 1.
static Expr ownCount(ShardedOp& op, Expr x, std::span<const RowDim> dims) {
  double known = 1;
  Expr count;
  for (const RowDim& d : dims) {
    const Dim own = op.typeOf(x).dims[static_cast<size_t>(d.dim)];
    if (own.isStatic()) {
      known *= static_cast<double>(own.value());
      continue;
    }
    const Expr size = op.convert(op.shardSize(d.globalSize, d.factor->axes), op.dtypeOf(x));
    count = count.valid() ? count * size : size;
  }
  return count.valid() ? max(count * known, 1) : x.literal(std::max(known, 1.0));
}

// The same for every device, in the order of gatherAll, with the rank of `summary`; invalid if sizes are
// symbolic.
static std::optional<Expr> countsOfAll(ShardedOp& op, Expr summary, std::span<const RowDim> dims) {
  Builder& b = op.b;
  Module& m = b.module;
  double known = 1;
  Expr counts;
  int64_t inner = op.devices(); // devices with the same index along the previous factors
  for (size_t f = 0; f < op.factors.size(); ++f) {
    if (!op.rule.factors[f].communicates() || !op.factors[f].isSharded()) continue;
    const Dim size = op.rule.factors[f].size;
    if (!size.isStatic()) return std::nullopt;
    const int64_t n = size.value(), k = op.factors[f].devices;
    inner /= k;
    if (n % k == 0) {
      known *= static_cast<double>(n / k);
      continue;
    }
    const TypeId type = m.tensorType(DType::I64, {op.devices()});
    Expr at = ops::iota(b, type, {.dim = 0});
    at = mod(at / inner, k);
    const Expr begin = at * n;
    const Expr end = (begin + n) / k;
    const Expr own = end - begin / k;
    counts = counts.valid() ? counts * own : own;
  }
  for (const RowDim& d : dims) {
    if (d.factor->isSharded()) continue;
    if (!d.globalSize.isStatic()) return std::nullopt;
    known *= static_cast<double>(d.globalSize.value());
  }
  if (!counts.valid()) return summary.literal(known);
  std::vector<int64_t> shape(op.typeOf(summary).rank() + 1, 1);
  shape[0] = op.devices();
  counts = reshape(counts.as(summary.dtype()), shape);
  return counts * known;
}

std::vector<RowDim> rowDims(const ShardedOp& op, std::span<const int64_t> dims) {
  std::vector<RowDim> rows;
  for (int64_t d : dims) {
    const auto at = static_cast<size_t>(d);
    rows.push_back({d, op.global.type(0).dims[at], &op.operandFactor(0, at)});
  }
  return rows;
}

Expr globalCount(ShardedOp& op, Expr like, std::span<const RowDim> dims) {
  Type type{op.dtypeOf(like), {}};
  std::vector<int64_t> all;
  for (const RowDim& d : dims) {
    all.push_back(static_cast<int64_t>(type.dims.size()));
    type.dims.push_back(d.globalSize);
  }
  return countOf(op.b, type, all);
}

SquaresAboutMean mergeSquares(ShardedOp& op, Expr x, std::span<const RowDim> rows) {
  const int64_t first = 0;
  std::vector<int64_t> dims;
  for (const RowDim& d : rows) dims.push_back(d.dim);
  const Expr sum = op.over(PendingKind::Sum, x, dims), count = globalCount(op, x, rows);
  const auto counts = op.gatherIsCheaper(sum, 2) ? countsOfAll(op, sum, rows) : std::nullopt;
  if (!counts) {
    const Expr mean = op.allReduce(sum, PendingKind::Sum) / count, c = x - mean;
    return {mean, op.allReduce(op.over(PendingKind::Sum, c * c, dims), PendingKind::Sum)};
  }
  const Expr c = x - sum / ownCount(op, x, rows);
  const Expr both = ops::stack(op.b, {sum, op.over(PendingKind::Sum, c * c, dims)}, 0);
  const Expr all = op.gatherAll(both); // [devices, 2, rows…]
  auto part = [&](int64_t i) { return index_select(all, i, {.dim = 1}); };
  auto total = [&](Expr v) { return op.over(PendingKind::Sum, v, {&first, 1}, false); };
  const Expr sums = part(0), mean = total(sums) / count;
  const Expr away = sums / max(*counts, 1) - mean;
  const Expr squares = part(1);
  return {mean, total(squares + *counts * (away * away))};
}

bool shardMoment(ShardedOp& op, std::vector<ValueId>& results) {
  const OpQuery& q = op.global;
  const std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  const Expr x = op.wide(op.operands[0]);
  const std::vector<RowDim> rows = rowDims(op, dims);
  const Expr squares = mergeSquares(op, x, rows).squares;
  const auto correction = static_cast<double>(q.intAttr("correction"));
  Expr freedom;
  if (const auto n = elementsReduced(q); n && n->isStatic())
    freedom = x.literal(std::max(static_cast<double>(n->value()) - correction, 0.0));
  else
    freedom = max(globalCount(op, x, rows) - correction, 0);
  Expr v = squares / freedom;
  if (std::string_view(q.record->name) == "std") v = sqrt(v);
  if (!q.boolAttr("keepdim")) v = squeeze(v, dims);
  results.push_back(op.convert(v, op.dtypeOf(op.operands[0])));
  return true;
}

// For powers that need a root: the sum over all shards, then the root.
bool shardNorm(ShardedOp& op, std::vector<ValueId>& results) {
  const OpQuery& q = op.global;
  const std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  const double p = q.floatAttr("p");
  const Expr x = op.wide(op.operands[0]);
  const Expr powers = p == 2 ? x * x : pow(abs(x), p);
  const Expr sum =
      op.allReduce(op.over(PendingKind::Sum, powers, dims, q.boolAttr("keepdim")), PendingKind::Sum);
  const Expr positive = abs(sum); // an empty sum is -0.0
  const Expr y = p == 2 ? sqrt(positive) : pow(positive, 1 / p);
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
