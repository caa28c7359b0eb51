// Ops whose sizes or places are operands, where the types say them too: what is left of a dynamic program that was refined
// to static shapes.
#include "HloConstants.h"
#include "HloConvolution.h"
#include "HloRegions.h"
#include "HloShape.h"
#include "HloTable.h"

#include <algorithm>

namespace dtc {

namespace {

bool dynamicBroadcastInDim(HloContext& c) { return c.expectOperands(2) && convertBroadcastInDim(c); }

bool dynamicReshape(HloContext& c) {
  if (!c.expectOperands(2)) return false;
  const TypeId type = c.resultType();
  return type.valid() && c.give(c.reshape(c.operand(0), c.module.types[type].staticShape()));
}

bool dynamicIota(HloContext& c) { return c.expectOperands(1) && convertIota(c); }

// The numbers of an operand that has to be a constant.
std::optional<std::vector<int64_t>> constantOperand(HloContext& c, size_t i, size_t count) {
  const ValueId v = c.operand(i);
  if (!v.valid()) return std::nullopt;
  auto numbers = constantInts(c, v);
  if (numbers && numbers->size() == count) return numbers;
  c.fail(numbers ? "has an operand " + std::to_string(i) + " of another length than " + std::to_string(count)
                 : "has an operand " + std::to_string(i) +
                       " that is no constant; lower the program for fixed sizes");
  return std::nullopt;
}

bool dynamicPad(HloContext& c) {
  if (!c.expectOperands(5)) return false;
  const ValueId x = c.operand(0), value = c.operand(1);
  const size_t rank = c.rankOf(x);
  auto low = constantOperand(c, 2, rank), high = low ? constantOperand(c, 3, rank) : std::nullopt,
       interior = high ? constantOperand(c, 4, rank) : std::nullopt;
  if (!x.valid() || !value.valid() || !interior) return false;
  return c.give(rank == 0 ? x : padWith(c, x, value, *low, *high, *interior));
}

// Slices of the result's sizes; where they begin is data.
bool realDynamicSlice(HloContext& c) {
  if (!c.expectOperands(4)) return false;
  const ValueId x = c.operand(0), starts = c.operand(1);
  const size_t rank = c.rankOf(x);
  auto strides = constantOperand(c, 3, rank);
  if (!x.valid() || !starts.valid() || !strides || !c.resultType().valid()) return false;
  if (rank == 0) return c.give(x);
  const std::vector<int64_t> sizes = c.resultShape();
  if (sizes.size() != rank) return c.fail("gives a tensor of another rank than its operand's");
  const bool whole = std::ranges::all_of(*strides, [](int64_t s) { return s == 1; });
  if (auto at = constantInts(c, starts); at && at->size() == rank) {
    auto limits = constantOperand(c, 2, rank);
    return limits && c.give(c.emit("slice", {x},
                                   {{"start", c.intsAttr(*at)},
                                    {"limit", c.intsAttr(*limits)},
                                    {"stride", c.intsAttr(*strides)}}));
  }
  if (!whole) return c.fail("has strides, and begins where no constant says");
  std::vector<ValueId> operands = {x};
  for (size_t d = 0; d < rank; ++d)
    operands.push_back(c.reshape(sliceAlong(c, starts, 0, static_cast<int64_t>(d), 1), {}));
  return c.give(c.emit("dynamic_slice", operands, {{"sizes", c.intsAttr(sizes)}}));
}

// The padding is its third operand.
bool dynamicConvolution(HloContext& c) {
  if (!c.expectOperands(3)) return false;
  const size_t rank = c.rankOf(c.operand(0));
  if (rank < 2) return c.fail("needs operands of two dims at least");
  auto padding = constantOperand(c, 2, 2 * (rank - 2));
  return padding && convertConvolution(c, &*padding);
}

// Sizes that both operands broadcast to; where shapes are static they are what they are.
bool minimumBroadcastShapes(HloContext& c) {
  return c.fail("computes shapes, which are static here; lower the program for fixed sizes");
}

const HloRow kRows[] = {
    {"chlo.dynamic_reshape", dynamicReshape},
    {"chlo.minimum_broadcast_shapes", minimumBroadcastShapes},
    {"stablehlo.dynamic_broadcast_in_dim", dynamicBroadcastInDim},
    {"stablehlo.dynamic_conv", dynamicConvolution},
    {"stablehlo.dynamic_iota", dynamicIota},
    {"stablehlo.dynamic_pad", dynamicPad},
    {"stablehlo.dynamic_reshape", dynamicReshape},
    {"stablehlo.real_dynamic_slice", realDynamicSlice},
};

} // namespace

std::span<const HloRow> hloDynamicRows() { return kRows; }

} // namespace dtc
