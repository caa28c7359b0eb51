// Dynamic ops, whose sizes or offsets are operands, where the types are static nevertheless: a dynamic
// program refined to static shapes.
#include "import/HloConstants.h"
#include "import/HloConvolution.h"
#include "import/HloRegions.h"
#include "import/HloShape.h"
#include "import/HloTable.h"

#include <algorithm>

namespace dtc {

namespace {

bool dynamicReshape(HloContext& c) {
  const TypeId type = c.resultType();
  return type.valid() && c.setResult(c.reshape(c.operand(0), c.module.types[type].staticShape()));
}

// The elements of an operand that must be constant.
std::optional<std::vector<int64_t>> constantOperand(HloContext& c, size_t i, size_t count) {
  const ValueId v = c.operand(i);
  if (!v.valid()) return std::nullopt;
  auto numbers = constantInts(c, v);
  if (numbers && numbers->size() == count) return numbers;
  c.fail(numbers ? "has an operand " + std::to_string(i) + " whose length is not " + std::to_string(count)
                 : "has an operand " + std::to_string(i) +
                       " that is not a constant; lower the program for fixed sizes");
  return std::nullopt;
}

bool dynamicPad(HloContext& c) {
  const ValueId x = c.operand(0), value = c.operand(1);
  const size_t rank = c.rankOf(x);
  auto low = constantOperand(c, 2, rank), high = low ? constantOperand(c, 3, rank) : std::nullopt,
       interior = high ? constantOperand(c, 4, rank) : std::nullopt;
  if (!x.valid() || !value.valid() || !interior) return false;
  return c.setResult(rank == 0 ? x : padWith(c, x, value, *low, *high, *interior));
}

// Slices of the result's sizes at dynamic offsets.
bool realDynamicSlice(HloContext& c) {
  const ValueId x = c.operand(0), starts = c.operand(1);
  const size_t rank = c.rankOf(x);
  auto strides = constantOperand(c, 3, rank);
  if (!x.valid() || !starts.valid() || !strides || !c.resultType().valid()) return false;
  if (rank == 0) return c.setResult(x);
  const std::vector<int64_t> sizes = c.resultShape();
  if (sizes.size() != rank) return c.fail("has a result whose rank differs from its operand's");
  const bool unitStrides = std::ranges::all_of(*strides, [](int64_t s) { return s == 1; });
  if (auto at = constantInts(c, starts); at && at->size() == rank) {
    auto limits = constantOperand(c, 2, rank);
    return limits && c.setResult(c.emit("slice", {x},
                                        {{"start", c.intsAttr(*at)},
                                         {"limit", c.intsAttr(*limits)},
                                         {"stride", c.intsAttr(*strides)}}));
  }
  if (!unitStrides) return c.fail("has strides, which need constant start indices");
  std::vector<ValueId> operands = {x};
  for (size_t d = 0; d < rank; ++d)
    operands.push_back(c.reshape(sliceAlong(c, starts, 0, static_cast<int64_t>(d), 1), {}));
  return c.setResult(c.emit("dynamic_slice", operands, {{"sizes", c.intsAttr(sizes)}}));
}

// The padding is its third operand.
bool dynamicConvolution(HloContext& c) {
  const size_t rank = c.rankOf(c.operand(0));
  if (rank < 2) return c.fail("needs operands of rank 2 or more");
  auto padding = constantOperand(c, 2, 2 * (rank - 2));
  return padding && convertConvolution(c, &*padding);
}

// The sizes that both operands broadcast to; static shapes need no computation.
bool minimumBroadcastShapes(HloContext& c) {
  return c.fail("computes a shape, but only static shapes are imported; lower the program for fixed sizes");
}

const HloRow kDynamicRows[] = {
    {"chlo.dynamic_reshape", dynamicReshape, 2},
    {"chlo.minimum_broadcast_shapes", minimumBroadcastShapes},
    {"stablehlo.dynamic_broadcast_in_dim", convertBroadcastInDim, 2},
    {"stablehlo.dynamic_conv", dynamicConvolution, 3},
    {"stablehlo.dynamic_iota", convertIota, 1},
    {"stablehlo.dynamic_pad", dynamicPad, 5},
    {"stablehlo.dynamic_reshape", dynamicReshape, 2},
    {"stablehlo.real_dynamic_slice", realDynamicSlice, 4},
};

} // namespace

std::span<const HloRow> hloDynamicRows() { return kDynamicRows; }

} // namespace dtc
