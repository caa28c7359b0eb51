// argmax, argmin and topk along a cut dim: values and the indices that belong to them, merged.
#include "Merge.h"
#include "dtc/IR/LocalShape.h"
#include <limits>
#include <string_view>

namespace dtc {

namespace {

constexpr double kNowhere = std::numeric_limits<int32_t>::max(); // the index of a piece that is empty

// Are they equal, or both NaN?
ValueId sameValue(CutOp& op, ValueId x, ValueId y) {
  const ValueId equal = op.b.value("eq", {x, y});
  if (!isFloat(op.dtypeOf(x))) return equal;
  return op.b.value("or", {equal, op.b.value("is_nan", {x})}); // beside a NaN the best is one
}

} // namespace

bool cutArg(CutOp& op, std::vector<ValueId>& results) {
  Builder& b = op.b;
  const bool greatest = std::string_view(op.whole.record->name) == "argmax";
  const char* best = greatest ? "max" : "min";
  const auto dim = *op.whole.dimAttr("dim", op.whole.type(0).rank());
  const auto at = static_cast<size_t>(dim);
  const int64_t first = 0;
  const Dim size = op.whole.type(0).dims[at];
  const std::vector<AxisRef>& axes = op.operandCut(0, at).axes;
  const ValueId x = op.operands[0];
  const ValueId value = op.over(best, x, {&dim, 1});
  const bool maybeEmpty = !size.isStatic() || size.value() < op.devices();
  const ValueId searched = maybeEmpty ? b.value("fill_piece", {x}, {{"dim", b.integer(dim)}}) : x;
  const ValueId own =
      b.value(op.whole.record->name, {searched}, {{"dim", b.integer(dim)}, {"keepdim", b.boolean(true)}});
  ValueId index = b.value("add", {own, op.pieceOffset(size, axes)});
  if (maybeEmpty) {
    const ValueId empty = b.value("eq", {op.pieceSize(size, axes), b.literal(0, DType::I32)});
    index = b.value("select", {empty, b.literal(kNowhere, DType::I32), index});
  }
  // Of those who have the best value, the first.
  ValueId result;
  auto candidates = [&](ValueId values, ValueId whole, ValueId indices) {
    return b.value("select", {sameValue(op, values, whole), indices, b.literal(kNowhere, DType::I32)});
  };
  if (op.gatherIsCheaper(index, 2)) {
    const ValueId parts[] = {value, index};
    const std::vector<ValueId> all = gatherTogether(op, parts);
    const ValueId whole = op.over(best, all[0], {&first, 1}, false);
    result = op.over("min", candidates(all[0], whole, all[1]), {&first, 1}, false);
  } else {
    const ValueId whole = op.allReduce(value, greatest ? PendingKind::Max : PendingKind::Min);
    result = op.allReduce(candidates(value, whole, index), PendingKind::Min);
  }
  if (!op.whole.boolAttr("keepdim")) result = b.value("squeeze", {result}, {{"dims", b.ints({&dim, 1})}});
  results.push_back(result);
  return true;
}

// The k best of each piece and where they stand, in the order of the pieces, so that the first of equals stays so; then the
// k best of those.
bool cutTopk(CutOp& op, std::vector<ValueId>& results) {
  Builder& b = op.b;
  const Type type = op.whole.type(0);
  const auto dim = *op.whole.dimAttr("dim", type.rank());
  const auto at = static_cast<size_t>(dim);
  const int64_t k = op.whole.intAttr("k");
  // A piece of fewer has nothing to choose from: gathering the dim moves as little.
  if (!type.dims[at].isStatic() || k == 0 || type.dims[at].value() / op.devices() < k) return false;
  const AttrId order = b.boolean(op.whole.boolAttr("descending"));
  auto best = [&](ValueId x) {
    const ValueId in[] = {x};
    return b.op("topk", in, {{"k", b.integer(k)}, {"dim", b.integer(dim)}, {"descending", order}});
  };
  const OpId own = best(op.operands[0]);
  const ValueId offset = op.pieceOffset(type.dims[at], op.operandCut(0, at).axes);
  const ValueId parts[] = {b.module.result(own, 0), b.value("add", {b.module.result(own, 1), offset})};
  std::vector<ValueId> all = gatherTogether(op, parts); // [devices, …, k, …]
  std::vector<int64_t> perm;
  for (int64_t d = 1; d <= static_cast<int64_t>(type.rank()); ++d) {
    if (d == dim + 1) perm.push_back(0);
    perm.push_back(d);
  }
  std::vector<Dim> shape = b.module.typeOf(parts[0]).dims;
  shape[at] = Dim(k * op.devices());
  for (ValueId& v : all) {
    v = b.value("transpose", {v}, {{"perm", b.ints(perm)}});
    v = b.value("reshape", {v}, {{"shape", sizesAttr(b.module, shape)}});
  }
  const OpId merged = best(all[0]);
  results = {b.module.result(merged, 0),
             b.value("gather", {all[1], b.module.result(merged, 1)}, {{"dim", b.integer(dim)}})};
  return true;
}

} // namespace dtc
