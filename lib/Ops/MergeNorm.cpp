// layer_norm, rms_norm and cross_entropy along cut dims.
#include "Merge.h"
#include <algorithm>
#include <cmath>
#include <string_view>

namespace dtc {

namespace {

// weight or bias against x: with its dims where x has the normalised ones.
ValueId againstRows(CutOp& op, std::span<const int64_t> dims, size_t operand) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(op.whole.type(0).rank()); ++d)
    if (!std::ranges::binary_search(dims, d)) kept.push_back(d);
  const ValueId v = op.wide(op.operands[operand]);
  return kept.empty() ? v : op.b.value("expand_dims", {v}, {{"dims", op.b.ints(kept)}});
}

} // namespace

bool cutLayerNorm(CutOp& op, std::vector<ValueId>& results) {
  Builder& b = op.b;
  const std::vector<int64_t> dims = *op.whole.dimsAttr("dims", op.whole.type(0).rank());
  const std::vector<RowDim> rows = rowDims(op, dims);
  const ValueId x = op.wide(op.operands[0]);
  ValueId centered = x, squares;
  if (std::string_view(op.whole.record->name) == "layer_norm") {
    const SquaresAboutMean moments = mergeSquares(op, x, rows);
    centered = b.value("sub", {x, moments.mean}), squares = moments.squares;
  } else {
    squares = op.allReduce(op.over("sum", b.value("mul", {x, x}), dims), PendingKind::Sum);
  }
  const ValueId variance = b.value("div", {squares, wholeCount(op, x, rows)});
  const ValueId eps = op.scalar(op.whole.floatAttr("eps"), x);
  ValueId y = b.value("mul", {centered, b.value("rsqrt", {b.value("add", {variance, eps})})});
  if (op.operands.size() > 1) y = b.value("mul", {y, againstRows(op, dims, 1)});
  if (op.operands.size() > 2) y = b.value("add", {y, againstRows(op, dims, 2)});
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

namespace {

// The labels as numbers of i32 or i64, with a dim of size 1 for the classes.
ValueId labelColumn(CutOp& op, int64_t dim) {
  const DType own = op.dtypeOf(op.operands[1]);
  const bool fits = dtypeBytes(own) < 4 || own == DType::I32;
  return op.b.value("expand_dims", {op.convert(op.operands[1], fits ? DType::I32 : DType::I64)},
                    {{"dims", op.b.ints({&dim, 1})}});
}

// The number of each class of this device's piece, in the dim of the classes.
ValueId ownClasses(CutOp& op, int64_t dim, DType dtype) {
  Module& m = op.b.module;
  const auto at = static_cast<size_t>(dim);
  std::vector<Dim> dims(op.whole.type(0).rank(), Dim(1));
  dims[at] = op.typeOf(op.operands[0]).dims[at];
  TypeId type[] = {m.tensorType(DType::I32, dims)};
  const ValueId offset[] = {op.pieceOffset(op.whole.type(0).dims[at], op.operandCut(0, at).axes)};
  return op.convert(m.result(op.b.op("iota", offset, {{"dim", op.b.integer(dim)}}, type)), dtype);
}

} // namespace

// The greatest logit, the sum of exponentials, the logit at the label (of whom has it; 0 of the others) and, where labels are
// smoothed, the sum of all logits.
bool cutCrossEntropy(CutOp& op, std::vector<ValueId>& results) {
  const Type logits = op.whole.type(0);
  const int64_t dim = *op.whole.dimAttr("dim", logits.rank());
  const Dim classes = logits.dims[static_cast<size_t>(dim)];
  const double smoothing = op.whole.floatAttr("label_smoothing");
  if (!classes.isStatic()) return false;
  Builder& b = op.b;
  const ValueId x = op.wide(op.operands[0]), label = labelColumn(op, dim);
  const ValueId here = b.value("eq", {ownClasses(op, dim, op.dtypeOf(label)), label});
  std::vector<ValueId> extra = {op.over("sum", b.value("select", {here, x, op.scalar(0, x)}), {&dim, 1})};
  if (smoothing != 0) extra.push_back(op.over("sum", x, {&dim, 1}));
  const ExponentialSum sums = sumExponentials(op, x, {&dim, 1}, WhereInfinite::IsNaN, extra);
  const ValueId total = b.value("add", {sums.shift, b.value("log", {sums.sum})});
  ValueId loss = b.value("sub", {total, sums.extra[0]});
  if (smoothing != 0) {
    const ValueId mean = b.value("div", {sums.extra[1], op.scalar(static_cast<double>(classes.value()), x)});
    const ValueId spread = b.value("mul", {b.value("sub", {total, mean}), op.scalar(smoothing, x)});
    loss = b.value("add", {b.value("mul", {loss, op.scalar(1 - smoothing, x)}), spread});
  }
  const DType own = op.dtypeOf(op.operands[1]);
  if (const int64_t ignore = op.whole.intAttr("ignore_index"); wrapToInt(own, ignore) == ignore) {
    const ValueId ignored = b.value("eq", {label, op.scalar(static_cast<double>(ignore), label)});
    loss = b.value("select", {ignored, op.scalar(0, loss), loss});
  }
  loss = b.value("squeeze", {loss}, {{"dims", b.ints({&dim, 1})}});
  results.push_back(op.convert(loss, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
