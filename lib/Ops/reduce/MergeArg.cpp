// argmax, argmin and topk along a sharded dim: merges values with their indices.
#include "dtc/IR/LocalShape.h"
#include "reduce/Merge.h"
#include <limits>
#include <string_view>

namespace dtc {

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max(); // the index of an empty shard

// Whether they are equal, or both NaN.
static Expr sameValue(Expr x, Expr y) {
  const Expr equal = eq(x, y);
  if (!isFloat(x.dtype())) return equal;
  return equal | is_nan(x); // NaN is the best value
}

bool shardArg(ShardedOp& op, std::vector<ValueId>& results) {
  const bool isMax = std::string_view(op.global.record->name) == "argmax";
  const PendingKind best = isMax ? PendingKind::Max : PendingKind::Min;
  const auto dim = *op.global.dimAttr("dim", op.global.type(0).rank());
  const auto at = static_cast<size_t>(dim);
  const int64_t first = 0;
  const Dim size = op.global.type(0).dims[at];
  const std::vector<AxisRef>& axes = op.operandFactor(0, at).axes;
  const Expr x = op.operand(0);
  const Expr value = op.over(best, x, {&dim, 1});
  const bool maybeEmpty = !size.isStatic() || size.value() < op.devices();
  const Expr searched = maybeEmpty ? fill_piece(x, {.dim = dim}) : x;
  const Expr own = isMax ? argmax(searched, {.dim = dim, .keepdim = true})
                         : argmin(searched, {.dim = dim, .keepdim = true});
  Expr index = own + op.shardOffset(size, axes);
  if (maybeEmpty) {
    const Expr empty = eq(op.shardSize(size, axes), 0);
    index = select(empty, kNowhere, index);
  }
  // The lowest index among devices with the best value.
  Expr result;
  auto candidates = [&](Expr values, Expr extreme, Expr indices) {
    return select(sameValue(values, extreme), indices, kNowhere);
  };
  if (op.gatherIsCheaper(index, 2)) {
    const std::vector<Expr> all = gatherTogether(op, {value, index});
    const Expr extreme = op.over(best, all[0], {&first, 1}, false);
    result = op.over(PendingKind::Min, candidates(all[0], extreme, all[1]), {&first, 1}, false);
  } else {
    const Expr extreme = op.allReduce(value, best);
    result = op.allReduce(candidates(value, extreme, index), PendingKind::Min);
  }
  if (!op.global.boolAttr("keepdim")) result = squeeze(result, {dim});
  results.push_back(result);
  return true;
}

// The k best of each shard and their indices, in shard order, so that the merge is stable; then the k best of
// these.
bool shardTopk(ShardedOp& op, std::vector<ValueId>& results) {
  const Type type = op.global.type(0);
  const auto dim = *op.global.dimAttr("dim", type.rank());
  const auto at = static_cast<size_t>(dim);
  const int64_t k = op.global.intAttr("k");
  // A shard with fewer elements has nothing to select: gathering the dim transfers as little.
  if (!type.dims[at].isStatic() || k == 0 || type.dims[at].value() / op.devices() < k) return false;
  const bool descending = op.global.boolAttr("descending");
  auto best = [&](Expr x) { return topk(x, {.k = k, .dim = dim, .descending = descending}); };
  const auto [own, coordinates] = best(op.operand(0));
  const Expr offset = op.shardOffset(type.dims[at], op.operandFactor(0, at).axes);
  std::vector<Expr> all = gatherTogether(op, {own, coordinates + offset}); // [devices, …, k, …]
  std::vector<int64_t> perm;
  for (int64_t d = 1; d <= static_cast<int64_t>(type.rank()); ++d) {
    if (d == dim + 1) perm.push_back(0);
    perm.push_back(d);
  }
  std::vector<Dim> shape = own.dims();
  shape[at] = Dim(k * op.devices());
  for (Expr& v : all) v = reshape(transpose(v, perm), shape);
  const auto [merged, from] = best(all[0]);
  results = {merged, gather(all[1], from, {.dim = dim})};
  return true;
}

} // namespace dtc
