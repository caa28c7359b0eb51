// var, std, norm and the means of group_norm and batch_norm where rows are cut.
#include "Merge.h"
#include "ReduceParts.h"
#include <cmath>

namespace dtc {

namespace {

// How many of a row's elements this device has, at least 1.
ValueId ownCount(CutOp& op, ValueId x, std::span<const RowDim> dims) {
  Builder& b = op.b;
  double known = 1;
  ValueId pieces;
  for (const RowDim& d : dims) {
    const Dim own = op.typeOf(x).dims[static_cast<size_t>(d.dim)];
    if (own.isStatic()) {
      known *= static_cast<double>(own.value());
      continue;
    }
    const ValueId size = op.convert(op.pieceSize(d.whole, d.cut->axes), op.dtypeOf(x));
    pieces = pieces.valid() ? b.value("mul", {pieces, size}) : size;
  }
  const ValueId number = op.scalar(pieces.valid() ? known : std::max(known, 1.0), x);
  return pieces.valid() ? b.value("max", {b.value("mul", {pieces, number}), op.scalar(1, x)}) : number;
}

// The same of every device, in the order of gatherAll, of the rank of `summary`; nothing where sizes are symbols.
std::optional<ValueId> countsOfAll(CutOp& op, ValueId summary, std::span<const RowDim> dims) {
  Builder& b = op.b;
  Module& m = b.module;
  double known = 1;
  ValueId counts;
  auto number = [&](int64_t v) { return m.makeLiteral(m.attrs.integer(v), DType::I64, b.loc); };
  int64_t inner = op.devices(); // devices of one index along the factors so far
  for (size_t f = 0; f < op.factors.size(); ++f) {
    if (!op.rule.factors[f].communicates() || !op.factors[f].cut()) continue;
    const Dim size = op.rule.factors[f].size;
    if (!size.isStatic()) return std::nullopt;
    const int64_t n = size.value(), k = op.factors[f].devices;
    inner /= k;
    if (n % k == 0) {
      known *= static_cast<double>(n / k);
      continue;
    }
    const TypeId places[] = {m.tensorType(DType::I64, {op.devices()})};
    ValueId at = m.result(b.op("iota", {}, {{"dim", b.integer(0)}}, places));
    at = b.value("mod", {b.value("div", {at, number(inner)}), number(k)});
    const ValueId begin = b.value("mul", {at, number(n)});
    const ValueId end = b.value("div", {b.value("add", {begin, number(n)}), number(k)});
    const ValueId own = b.value("sub", {end, b.value("div", {begin, number(k)})});
    counts = counts.valid() ? b.value("mul", {counts, own}) : own;
  }
  for (const RowDim& d : dims) {
    if (d.cut->cut()) continue;
    if (!d.whole.isStatic()) return std::nullopt;
    known *= static_cast<double>(d.whole.value());
  }
  const ValueId scale = op.scalar(known, summary);
  if (!counts.valid()) return scale;
  std::vector<int64_t> shape(op.typeOf(summary).rank() + 1, 1);
  shape[0] = op.devices();
  counts = b.value("reshape", {op.convert(counts, op.dtypeOf(summary))}, {{"shape", b.ints(shape)}});
  return b.value("mul", {counts, scale});
}

} // namespace

std::vector<RowDim> rowDims(const CutOp& op, std::span<const int64_t> dims) {
  std::vector<RowDim> rows;
  for (int64_t d : dims) {
    const auto at = static_cast<size_t>(d);
    rows.push_back({d, op.whole.type(0).dims[at], &op.operandCut(0, at)});
  }
  return rows;
}

ValueId wholeCount(CutOp& op, ValueId like, std::span<const RowDim> dims) {
  Type type{op.dtypeOf(like), {}};
  std::vector<int64_t> all;
  for (const RowDim& d : dims) {
    all.push_back(static_cast<int64_t>(type.dims.size()));
    type.dims.push_back(d.whole);
  }
  return countOf(op.b, type, all);
}

SquaresAboutMean mergeSquares(CutOp& op, ValueId x, std::span<const RowDim> rows) {
  const Arithmetic a{op.b};
  const int64_t first = 0;
  std::vector<int64_t> dims;
  for (const RowDim& d : rows) dims.push_back(d.dim);
  const ValueId sum = op.over("sum", x, dims), count = wholeCount(op, x, rows);
  const auto counts = op.gatherIsCheaper(sum, 2) ? countsOfAll(op, sum, rows) : std::nullopt;
  if (!counts) {
    const ValueId mean = a.div(op.allReduce(sum, PendingKind::Sum), count), c = a.sub(x, mean);
    return {mean, op.allReduce(op.over("sum", a.mul(c, c), dims), PendingKind::Sum)};
  }
  const ValueId c = a.sub(x, a.div(sum, ownCount(op, x, rows)));
  const ValueId both =
      op.b.value("stack", {sum, op.over("sum", a.mul(c, c), dims)}, {{"dim", op.b.integer(0)}});
  const ValueId all = op.gatherAll(both); // [devices, 2, rows…]
  auto part = [&](int64_t i) {
    return op.b.value("index_select", {all, op.b.literal(static_cast<double>(i), DType::I32)},
                      {{"dim", op.b.integer(1)}});
  };
  auto total = [&](ValueId v) { return op.over("sum", v, {&first, 1}, false); };
  const ValueId sums = part(0), mean = a.div(total(sums), count);
  const ValueId away = a.sub(a.div(sums, op.b.value("max", {*counts, op.scalar(1, x)})), mean);
  return {mean, total(a.add(part(1), a.mul(*counts, a.mul(away, away))))};
}

bool cutMoment(CutOp& op, std::vector<ValueId>& results) {
  const OpQuery& q = op.whole;
  const std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  const ValueId x = op.wide(op.operands[0]);
  const std::vector<RowDim> rows = rowDims(op, dims);
  const ValueId squares = mergeSquares(op, x, rows).squares;
  const auto correction = static_cast<double>(q.intAttr("correction"));
  ValueId freedom;
  if (const auto n = elementsReduced(q); n && n->isStatic())
    freedom = op.scalar(std::max(static_cast<double>(n->value()) - correction, 0.0), x);
  else
    freedom = op.b.value(
        "max", {op.b.value("sub", {wholeCount(op, x, rows), op.scalar(correction, x)}), op.scalar(0, x)});
  ValueId v = op.b.value("div", {squares, freedom});
  if (std::string_view(q.record->name) == "std") v = op.b.value("sqrt", {v});
  if (!q.boolAttr("keepdim")) v = op.b.value("squeeze", {v}, {{"dims", op.b.ints(dims)}});
  results.push_back(op.convert(v, op.dtypeOf(op.operands[0])));
  return true;
}

// Of the powers that have a root: the sum of all pieces, then the root.
bool cutNorm(CutOp& op, std::vector<ValueId>& results) {
  const OpQuery& q = op.whole;
  Builder& b = op.b;
  const std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  const double p = q.floatAttr("p");
  const ValueId x = op.wide(op.operands[0]);
  const ValueId powers =
      p == 2 ? b.value("mul", {x, x}) : b.value("pow", {b.value("abs", {x}), op.scalar(p, x)});
  const ValueId sum = op.allReduce(op.over("sum", powers, dims, q.boolAttr("keepdim")), PendingKind::Sum);
  const ValueId positive = b.value("abs", {sum}); // a sum of nothing is -0.0
  const ValueId y = p == 2 ? b.value("sqrt", {positive}) : b.value("pow", {positive, op.scalar(1 / p, x)});
  results.push_back(op.convert(y, op.dtypeOf(op.operands[0])));
  return true;
}

} // namespace dtc
