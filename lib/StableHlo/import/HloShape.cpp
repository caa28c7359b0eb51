// Data-movement ops.
#include "import/HloShape.h"
#include "import/HloTable.h"

#include <algorithm>
#include <numeric>

namespace dtc {

namespace {

// In a region that is applied elementwise, data-movement ops on scalars are identities.
bool liftedDataMovement(HloContext& c) {
  bool scalar = !c.op.resultTypes.empty() && c.op.resultTypes[0] && c.op.resultTypes[0]->dims.empty();
  if (!scalar) return c.fail("moves elements, but an elementwise function is expected here");
  return c.setResult(c.operand(0));
}

bool reshape(HloContext& c) {
  if (c.lifted()) return liftedDataMovement(c);
  TypeId type = c.resultType();
  if (!type.valid()) return false;
  const std::vector<int64_t> shape = c.module.types[type].staticShape(), from = c.shapeOf(c.operand(0));
  if (std::ranges::count(shape, 0) > 0 && std::ranges::count(from, 0) > 0) // both empty
    return c.setResult(c.splat(0, c.resultDType(), shape));
  return c.setResult(c.reshape(c.operand(0), shape));
}

bool transpose(HloContext& c) {
  if (c.lifted()) return liftedDataMovement(c);
  ValueId x = c.operand(0);
  auto perm = c.ints("permutation", static_cast<int64_t>(c.rankOf(x)));
  return perm && c.setResult(c.transpose(x, *perm));
}

// The new dims precede those of x.
bool broadcast(HloContext& c) {
  TypeId type = c.resultType();
  return type.valid() && c.setResult(c.broadcastTo(c.operand(0), c.module.types[type].staticShape()));
}

// An attribute, omitted where it has its default value.
AttrId unlessAll(HloContext& c, const std::vector<int64_t>& v, int64_t usual) {
  bool all = std::all_of(v.begin(), v.end(), [&](int64_t e) { return e == usual; });
  return all ? AttrId() : c.intsAttr(v);
}

bool slice(HloContext& c) {
  ValueId x = c.operand(0);
  auto rank = static_cast<int64_t>(c.rankOf(x));
  auto start = c.ints("start_indices", rank), limit = c.ints("limit_indices", rank);
  auto stride = c.intsOr("strides", std::vector<int64_t>(static_cast<size_t>(rank), 1), rank);
  if (!start || !limit || !stride) return false;
  return c.setResult(c.emit("slice", {x},
                            {{"start", c.intsAttr(*start)},
                             {"limit", c.intsAttr(*limit)},
                             {"stride", unlessAll(c, *stride, 1), true}}));
}

bool reverse(HloContext& c) {
  auto dims = c.ints("dimensions");
  if (!dims) return false;
  return c.setResult(dims->empty() ? c.operand(0)
                                   : c.emit("flip", {c.operand(0)}, {{"dims", c.intsAttr(*dims)}}));
}

bool concatenate(HloContext& c) {
  auto dim = c.integer("dimension");
  if (!dim) return false;
  std::vector<ValueId> parts = c.tensors();
  if (parts.empty()) return c.fail("needs an operand");
  return c.setResult(parts.size() == 1 ? parts[0] : c.emit("concat", parts, {{"dim", c.intAttr(*dim)}}));
}

bool pad(HloContext& c) {
  ValueId x = c.operand(0);
  auto rank = static_cast<int64_t>(c.rankOf(x));
  auto low = c.ints("edge_padding_low", rank), high = c.ints("edge_padding_high", rank);
  auto interior = c.intsOr("interior_padding", std::vector<int64_t>(static_cast<size_t>(rank), 0), rank);
  if (!low || !high || !interior) return false;
  if (rank == 0) return c.setResult(x);
  return c.setResult(c.emit("pad", {x, c.operand(1)},
                            {{"low", c.intsAttr(*low)},
                             {"high", c.intsAttr(*high)},
                             {"interior", unlessAll(c, *interior, 0), true}}));
}

bool getDimensionSize(HloContext& c) {
  auto dim = c.integer("dimension");
  if (!dim) return false;
  std::vector<int64_t> shape = c.shapeOf(c.operand(0));
  if (*dim < 0 || *dim >= static_cast<int64_t>(shape.size()))
    return c.failAttr("dimension", "is not a dim of the operand");
  return c.setResult(c.splat(static_cast<double>(shape[static_cast<size_t>(*dim)]), c.resultDType(), {}));
}

const HloRow kShapeRows[] = {
    {"stablehlo.broadcast", broadcast, 1},
    {"stablehlo.broadcast_in_dim", convertBroadcastInDim, 1},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.get_dimension_size", getDimensionSize, 1},
    {"stablehlo.pad", pad, 2},
    {"stablehlo.reshape", reshape, 1},
    {"stablehlo.reverse", reverse, 1},
    {"stablehlo.slice", slice, 1},
    {"stablehlo.transpose", transpose, 1},
};

} // namespace

// Dim i of x becomes dim dims[i] of the result; the other dims are new.
bool convertBroadcastInDim(HloContext& c) {
  if (c.lifted()) return liftedDataMovement(c);
  ValueId x = c.operand(0);
  TypeId type = c.resultType();
  if (!x.valid() || !type.valid()) return false;
  std::vector<int64_t> from = c.shapeOf(x), to = c.module.types[type].staticShape();
  auto dims = c.ints("broadcast_dimensions", static_cast<int64_t>(from.size()));
  if (!dims) return false;
  std::vector<int64_t> order(from.size()), spread(to.size(), 1);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return (*dims)[static_cast<size_t>(a)] < (*dims)[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t d = (*dims)[i];
    if (d < 0 || d >= static_cast<int64_t>(to.size()) || std::count(dims->begin(), dims->end(), d) > 1)
      return c.failAttr("broadcast_dimensions", "names a dim that the result does not have, or one twice");
    if (from[i] != 1 && from[i] != to[static_cast<size_t>(d)])
      return c.fail("broadcasts a dim of size " + std::to_string(from[i]) + " to " +
                    std::to_string(to[static_cast<size_t>(d)]));
    spread[static_cast<size_t>(d)] = from[i];
  }
  // NumPy broadcasting adds leading dims.
  size_t lead = 0;
  while (lead < spread.size() &&
         std::find(dims->begin(), dims->end(), static_cast<int64_t>(lead)) == dims->end())
    ++lead;
  spread.erase(spread.begin(), spread.begin() + static_cast<std::ptrdiff_t>(lead));
  return c.setResult(c.broadcastTo(c.reshape(c.transpose(x, order), spread), to));
}

std::span<const HloRow> hloShapeRows() { return kShapeRows; }

} // namespace dtc
