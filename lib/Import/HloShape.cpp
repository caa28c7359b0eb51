// Moves of elements.
#include "HloShape.h"
#include "HloTable.h"

#include <algorithm>
#include <numeric>

namespace dtc {

namespace {

// In a region that is applied elementwise a scalar's move is nothing at all.
bool liftedMove(HloContext& c) {
  bool scalar = !c.op.resultTypes.empty() && c.op.resultTypes[0] && c.op.resultTypes[0]->dims.empty();
  if (!scalar) return c.fail("moves elements where a scalar function is asked for");
  return c.give(c.operand(0));
}

bool reshape(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  if (c.lifted()) return liftedMove(c);
  TypeId type = c.resultType();
  if (!type.valid()) return false;
  const std::vector<int64_t> shape = c.module.types[type].staticShape(), from = c.shapeOf(c.operand(0));
  if (std::ranges::count(shape, 0) > 0 &&
      std::ranges::count(from, 0) > 0) // nothing of the one is nothing of the other
    return c.give(c.splat(0, c.resultDType(), shape));
  return c.give(c.reshape(c.operand(0), shape));
}

bool transpose(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  if (c.lifted()) return liftedMove(c);
  ValueId x = c.operand(0);
  auto perm = c.ints("permutation", static_cast<int64_t>(c.rankOf(x)));
  return perm && c.give(c.transpose(x, *perm));
}

bool broadcastInDim(HloContext& c) { return c.expectOperands(1) && convertBroadcastInDim(c); }

// The sizes stand before those of x.
bool broadcast(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  TypeId type = c.resultType();
  return type.valid() && c.give(c.broadcastTo(c.operand(0), c.module.types[type].staticShape()));
}

// An attribute, left out where it is what it is anyway.
AttrId unlessAll(HloContext& c, const std::vector<int64_t>& v, int64_t usual) {
  bool all = std::all_of(v.begin(), v.end(), [&](int64_t e) { return e == usual; });
  return all ? AttrId() : c.intsAttr(v);
}

bool slice(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  ValueId x = c.operand(0);
  auto rank = static_cast<int64_t>(c.rankOf(x));
  auto start = c.ints("start_indices", rank), limit = c.ints("limit_indices", rank);
  auto stride = c.intsOr("strides", std::vector<int64_t>(static_cast<size_t>(rank), 1), rank);
  if (!start || !limit || !stride) return false;
  return c.give(c.emit("slice", {x},
                       {{"start", c.intsAttr(*start)},
                        {"limit", c.intsAttr(*limit)},
                        {"stride", unlessAll(c, *stride, 1), true}}));
}

bool reverse(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  auto dims = c.ints("dimensions");
  if (!dims) return false;
  return c.give(dims->empty() ? c.operand(0) : c.emit("flip", {c.operand(0)}, {{"dims", c.intsAttr(*dims)}}));
}

bool concatenate(HloContext& c) {
  auto dim = c.integer("dimension");
  if (!dim) return false;
  std::vector<ValueId> parts = c.tensors();
  if (parts.empty()) return c.fail("has nothing to put together");
  return c.give(parts.size() == 1 ? parts[0] : c.emit("concat", parts, {{"dim", c.intAttr(*dim)}}));
}

bool pad(HloContext& c) {
  if (!c.expectOperands(2)) return false;
  ValueId x = c.operand(0);
  auto rank = static_cast<int64_t>(c.rankOf(x));
  auto low = c.ints("edge_padding_low", rank), high = c.ints("edge_padding_high", rank);
  auto interior = c.intsOr("interior_padding", std::vector<int64_t>(static_cast<size_t>(rank), 0), rank);
  if (!low || !high || !interior) return false;
  if (rank == 0) return c.give(x);
  return c.give(c.emit("pad", {x, c.operand(1)},
                       {{"low", c.intsAttr(*low)},
                        {"high", c.intsAttr(*high)},
                        {"interior", unlessAll(c, *interior, 0), true}}));
}

bool getDimensionSize(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  auto dim = c.integer("dimension");
  if (!dim) return false;
  std::vector<int64_t> shape = c.shapeOf(c.operand(0));
  if (*dim < 0 || *dim >= static_cast<int64_t>(shape.size()))
    return c.failAttr("dimension", "is no dim of the operand");
  return c.give(c.splat(static_cast<double>(shape[static_cast<size_t>(*dim)]), c.resultDType(), {}));
}

const HloRow kRows[] = {
    {"stablehlo.broadcast", broadcast},
    {"stablehlo.broadcast_in_dim", broadcastInDim},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.get_dimension_size", getDimensionSize},
    {"stablehlo.pad", pad},
    {"stablehlo.reshape", reshape},
    {"stablehlo.reverse", reverse},
    {"stablehlo.slice", slice},
    {"stablehlo.transpose", transpose},
};

} // namespace

// Dim i of x becomes dim dims[i] of the result; what is left is new.
bool convertBroadcastInDim(HloContext& c) {
  if (c.lifted()) return liftedMove(c);
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
      return c.fail("spreads a dim of size " + std::to_string(from[i]) + " to " +
                    std::to_string(to[static_cast<size_t>(d)]));
    spread[static_cast<size_t>(d)] = from[i];
  }
  // NumPy's broadcast adds leading dims itself.
  size_t lead = 0;
  while (lead < spread.size() &&
         std::find(dims->begin(), dims->end(), static_cast<int64_t>(lead)) == dims->end())
    ++lead;
  spread.erase(spread.begin(), spread.begin() + static_cast<std::ptrdiff_t>(lead));
  return c.give(c.broadcastTo(c.reshape(c.transpose(x, order), spread), to));
}

std::span<const HloRow> hloShapeRows() { return kRows; }

} // namespace dtc
