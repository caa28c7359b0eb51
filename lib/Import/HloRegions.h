#pragma once
// What the ops that take regions share: what a region does, and its use on whole tensors. Private to lib/Import.
#include "HloContext.h"

namespace dtc {

// A region that is one associative op of two elements, in our words; nullptr where we have none.
struct HloFold {
  const char* binary;  // "add"
  const char* reduce;  // "sum"
  const char* scan;    // "cumsum"
  const char* scatter; // "sum"
};
[[nodiscard]] const HloFold* foldOf(const HloContext&, const MlirRegion&, DType);
// Is the value a constant that the fold's op leaves every element as it is by?
[[nodiscard]] bool isNeutral(const HloContext&, ValueId init, const HloFold&);

// The region of 2 N arguments, `a` the first of them; values of this shape, broadcast.
[[nodiscard]] std::vector<ValueId> foldRegion(HloContext&, const MlirRegion&, std::span<const ValueId> a,
                                              std::span<const ValueId> b, std::span<const int64_t> shape);

// N operands of one shape and N scalars that they begin with.
struct HloFolded {
  std::vector<ValueId> inputs, inits;
  std::vector<int64_t> shape;
  const MlirRegion* region = nullptr;
  const HloFold* fold = nullptr; // of one operand
};
[[nodiscard]] bool readFolded(HloContext&, HloFolded&); // the operands and the region of the op

// A value of a region as text, over its arguments "a0 b0 a1 b1 …" in the order given by `names`, without types; "" where it is
// too long or made of more than ops of one result without regions.
[[nodiscard]] std::string regionExpression(const HloContext&, const MlirRegion&, const MlirUse& value,
                                           std::span<const std::string> names);
// The op of the region that makes a value; nullptr where it is an argument.
[[nodiscard]] const MlirOp* regionMaker(const MlirRegion&, const MlirUse& value);
// A value of the region, applied elementwise to whole tensors.
[[nodiscard]] ValueId regionValue(HloContext&, const MlirRegion&, const MlirUse& value,
                                  std::span<const ValueId> args, std::span<const int64_t> shape);
// The direction and the type of a comparison: "LT", "TOTALORDER".
[[nodiscard]] std::string_view compareWord(const HloContext&, const MlirOp&, std::string_view attribute);

// An integer for a float, in the order of totalOrder: -NaN, -inf, …, -0, +0, …, inf, NaN; other values as they are.
[[nodiscard]] ValueId totalOrderKey(HloContext&, ValueId x);

// --- moves ---
// Elements start, start + stride, …, `count` of them, along a dim.
[[nodiscard]] ValueId sliceAlong(HloContext&, ValueId x, size_t dim, int64_t start, int64_t count,
                                 int64_t stride = 1);
[[nodiscard]] ValueId padWith(HloContext&, ValueId x, ValueId value, std::span<const int64_t> low,
                              std::span<const int64_t> high, std::span<const int64_t> interior);
[[nodiscard]] int64_t elementsOf(std::span<const int64_t> shape);

} // namespace dtc
