// layer_norm, rms_norm and cross_entropy along cut dims.
#include "Merge.h"
#include "dtc/IR/LocalShape.h"
#include <algorithm>
#include <cmath>
#include <string_view>

namespace dtc {

namespace {

// The normalised dims of a norm, whose whole sizes are numbers.
struct NormDims {
  std::vector<int64_t> dims;
  int64_t count = 1; // of elements in a whole row
  [[nodiscard]] bool has(size_t d) const {
    return std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(d));
  }
};

std::optional<NormDims> normDims(const CutOp& op) {
  const Type x = op.whole.type(0);
  NormDims n{*op.whole.dimsAttr("dims", x.rank())};
  for (int64_t d : n.dims) {
    const Dim size = x.dims[static_cast<size_t>(d)];
    if (!size.isStatic()) return std::nullopt;
    n.count *= size.value();
  }
  return n;
}

// How many elements of a row each device has, in the order of their index along op.axes().
std::vector<int64_t> countsOf(const CutOp& op) {
  std::vector<int64_t> counts(static_cast<size_t>(op.devices()), 1);
  int64_t inner = 1; // devices along the factors behind
  for (size_t f = op.factors.size(); f-- > 0;) {
    if (!op.rule.factors[f].communicates()) continue;
    const int64_t k = op.factors[f].devices;
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] *= piece(op.rule.factors[f].size.value(), k, static_cast<int64_t>(i) / inner % k).size();
    inner *= k;
  }
  return counts;
}

// A constant along dim 0, broadcast against rows of `rank` dims.
ValueId alongDevices(CutOp& op, const std::vector<int64_t>& numbers, size_t rank, DType dtype) {
  Module& m = op.b.module;
  if (std::ranges::all_of(numbers, [&](int64_t n) { return n == numbers[0]; }))
    return op.b.literal(static_cast<double>(numbers[0]), dtype);
  std::vector<Dim> dims(rank + 1, Dim(1));
  dims[0] = Dim(static_cast<int64_t>(numbers.size()));
  AttrId value = m.attrs.integers(numbers);
  const Dim flat[] = {dims[0]};
  TypeId type[] = {m.tensorType(DType::I64, flat)};
  const ValueId list = m.result(op.b.op("constant", {}, {{"value", value}}, type));
  const ValueId shaped = op.b.value("reshape", {list}, {{"shape", sizesAttr(m, dims)}});
  return op.convert(shaped, dtype);
}

// The number of elements of a row here: 1 at least, so that it divides.
ValueId ownCount(CutOp& op, const NormDims& n, ValueId like) {
  const std::vector<int64_t> counts = countsOf(op);
  if (std::ranges::all_of(counts, [&](int64_t c) { return c == counts[0]; }))
    return op.scalar(static_cast<double>(std::max<int64_t>(counts[0], 1)), like);
  ValueId product;
  int64_t uncut = n.count;
  for (size_t f = 0; f < op.factors.size(); ++f) {
    if (!op.rule.factors[f].communicates() || !op.factors[f].cut()) continue;
    const Dim size = op.rule.factors[f].size;
    const ValueId own = op.pieceSize(size, op.factors[f].axes);
    product = product.valid() ? op.b.value("mul", {product, own}) : own;
    uncut /= size.value() == 0 ? 1 : size.value();
  }
  product = op.b.value("max", {product, op.b.literal(1, DType::I32)});
  product = op.convert(product, op.dtypeOf(like));
  return uncut == 1 ? product : op.b.value("mul", {product, op.scalar(static_cast<double>(uncut), like)});
}

struct Moments {
  ValueId mean, squares; // of a whole row; the sum of (x - mean)²
};

// Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979): each piece's
// squares about its own mean, and n_i (mean_i - mean)² for each; or two sums one after the other, where that moves less.
Moments momentsOf(CutOp& op, const NormDims& n, ValueId x) {
  Builder& b = op.b;
  const int64_t first = 0;
  const ValueId own = op.over("sum", x, n.dims), all = op.scalar(static_cast<double>(n.count), x);
  auto squares = [&](ValueId mean) {
    const ValueId c = b.value("sub", {x, mean});
    return op.over("sum", b.value("mul", {c, c}), n.dims);
  };
  if (!op.gatherIsCheaper(own, 2)) {
    const ValueId mean = b.value("div", {op.allReduce(own, PendingKind::Sum), all});
    return {mean, op.allReduce(squares(mean), PendingKind::Sum)};
  }
  const ValueId parts[] = {own, squares(b.value("div", {own, ownCount(op, n, x)}))};
  const std::vector<ValueId> gathered = gatherTogether(op, parts);
  const ValueId mean = b.value("div", {op.over("sum", gathered[0], {&first, 1}, false), all});
  const std::vector<int64_t> counts = countsOf(op);
  std::vector<int64_t> divisors = counts;
  for (int64_t& c : divisors) c = std::max<int64_t>(c, 1);
  const size_t rank = op.typeOf(own).rank();
  const ValueId means = b.value("div", {gathered[0], alongDevices(op, divisors, rank, op.dtypeOf(x))});
  const ValueId away = b.value("sub", {means, mean});
  const ValueId between =
      b.value("mul", {b.value("mul", {away, away}), alongDevices(op, counts, rank, op.dtypeOf(x))});
  return {mean, op.over("sum", b.value("add", {gathered[1], between}), {&first, 1}, false)};
}

// weight or bias against x: with its dims where x has the normalised ones.
ValueId againstRows(CutOp& op, const NormDims& n, size_t operand) {
  std::vector<int64_t> kept;
  for (size_t d = 0; d < op.whole.type(0).rank(); ++d)
    if (!n.has(d)) kept.push_back(static_cast<int64_t>(d));
  const ValueId v = op.wide(op.operands[operand]);
  return kept.empty() ? v : op.b.value("expand_dims", {v}, {{"dims", op.b.ints(kept)}});
}

} // namespace

bool cutLayerNorm(CutOp& op, std::vector<ValueId>& results) {
  const auto n = normDims(op);
  if (!n || n->count == 0) return false;
  Builder& b = op.b;
  const ValueId x = op.wide(op.operands[0]);
  ValueId centered = x, squares;
  if (std::string_view(op.whole.record->name) == "layer_norm") {
    const Moments moments = momentsOf(op, *n, x);
    centered = b.value("sub", {x, moments.mean}), squares = moments.squares;
  } else {
    squares = op.allReduce(op.over("sum", b.value("mul", {x, x}), n->dims), PendingKind::Sum);
  }
  const ValueId variance = b.value("div", {squares, op.scalar(static_cast<double>(n->count), x)});
  const ValueId eps = op.scalar(op.whole.floatAttr("eps"), x);
  ValueId y = b.value("mul", {centered, b.value("rsqrt", {b.value("add", {variance, eps})})});
  if (op.operands.size() > 1) y = b.value("mul", {y, againstRows(op, *n, 1)});
  if (op.operands.size() > 2) y = b.value("add", {y, againstRows(op, *n, 2)});
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
