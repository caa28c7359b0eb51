// layer_norm, rms_norm and cross_entropy along sharded dims.
#include "reduce/Merge.h"
#include <algorithm>
#include <cmath>
#include <string_view>

namespace dtc {

// Broadcasts weight or bias against x: its dims at the normalized ones of x.
static Expr againstRows(ShardedOp& op, std::span<const int64_t> dims, size_t operand) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(op.global.type(0).rank()); ++d)
    if (!std::ranges::binary_search(dims, d)) kept.push_back(d);
  const Expr v = op.wide(op.operands[operand]);
  return kept.empty() ? v : expand_dims(v, kept);
}

bool shardLayerNorm(ShardedOp& op, std::vector<ValueId>& results) {
  const std::vector<int64_t> dims = *op.global.dimsAttr("dims", op.global.type(0).rank());
  const std::vector<RowDim> rows = rowDims(op, dims);
  const Expr x = op.wide(op.operands[0]);
  Expr centered = x, squares;
  if (std::string_view(op.global.record->name) == "layer_norm") {
    const SquaresAboutMean moments = mergeSquares(op, x, rows);
    centered = x - moments.mean, squares = moments.squares;
  } else {
    squares = op.allReduce(op.over(PendingKind::Sum, x * x, dims), PendingKind::Sum);
  }
  const Expr variance = squares / globalCount(op, x, rows);
  Expr y = centered * rsqrt(variance + op.global.floatAttr("eps"));
  if (op.operands.size() > 1) y = y * againstRows(op, dims, 1);
  if (op.operands.size() > 2) y = y + againstRows(op, dims, 2);
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

// The labels as i32 or i64, with a dim of size 1 for the classes.
static Expr labelColumn(ShardedOp& op, int64_t dim) {
  const DType own = op.dtypeOf(op.operands[1]);
  const bool fits = dtypeBytes(own) < 4 || own == DType::I32;
  return expand_dims(op.convert(op.operands[1], fits ? DType::I32 : DType::I64), {dim});
}

// The class indices of this device's shard, along the class dim.
static Expr ownClasses(ShardedOp& op, int64_t dim, DType dtype) {
  Module& m = op.b.module;
  const auto at = static_cast<size_t>(dim);
  std::vector<Dim> dims(op.global.type(0).rank(), Dim(1));
  dims[at] = op.typeOf(op.operands[0]).dims[at];
  const TypeId type = m.tensorType(DType::I32, dims);
  const Expr offset = op.shardOffset(op.global.type(0).dims[at], op.operandFactor(0, at).axes);
  return ops::iota(op.b, type, {.offset = offset, .dim = dim}).as(dtype);
}

// The max logit, the sum of exponentials, the logit at the label (0 on devices that do not own it) and, with
// label smoothing, the sum of all logits.
bool shardCrossEntropy(ShardedOp& op, std::vector<ValueId>& results) {
  const Type logits = op.global.type(0);
  const int64_t dim = *op.global.dimAttr("dim", logits.rank());
  const Dim classes = logits.dims[static_cast<size_t>(dim)];
  const double smoothing = op.global.floatAttr("label_smoothing");
  if (!classes.isStatic()) return false;
  const Expr x = op.wide(op.operands[0]), label = labelColumn(op, dim);
  const Expr here = eq(ownClasses(op, dim, op.dtypeOf(label)), label);
  std::vector<Expr> extra = {op.over(PendingKind::Sum, select(here, x, 0), {&dim, 1})};
  if (smoothing != 0) extra.push_back(op.over(PendingKind::Sum, x, {&dim, 1}));
  const ExponentialSum sums = sumExponentials(op, x, {&dim, 1}, WhereInfinite::IsNaN, extra);
  const Expr total = sums.shift + log(sums.sum);
  Expr loss = total - sums.extra[0];
  if (smoothing != 0) {
    const Expr mean = sums.extra[1] / classes.value();
    const Expr spread = (total - mean) * smoothing;
    loss = loss * (1 - smoothing) + spread;
  }
  const DType own = op.dtypeOf(op.operands[1]);
  if (const int64_t ignore = op.global.intAttr("ignore_index"); wrapToInt(own, ignore) == ignore) {
    const Expr ignored = eq(label, ignore);
    loss = select(ignored, 0, loss);
  }
  loss = squeeze(loss, {dim});
  results.push_back(op.convert(loss, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
