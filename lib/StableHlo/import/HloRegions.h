#pragma once
// Helpers for ops with regions: recognizing a region's function, and applying it to whole tensors.
#include "import/HloContext.h"

namespace dtc {

// A region with one associative op of two elements, as dtc ops; nullptr where dtc has no equivalent.
struct HloFold {
  PendingKind kind;    // whose neutral element it has
  OpName binary;       // "add"
  OpName reduce;       // "sum"
  OpName scan;         // "cumsum"
  const char* scatter; // "sum"
};
[[nodiscard]] const HloFold* foldOf(const HloContext&, const MlirRegion&, DType);
// True if the value is a constant that is the identity of the fold's op.
[[nodiscard]] bool isNeutral(const HloContext&, ValueId init, const HloFold&);

// Applies the region of 2 N arguments to values of this shape, `a` first; the results are broadcast.
[[nodiscard]] std::vector<ValueId> foldRegion(HloContext&, const MlirRegion&, std::span<const ValueId> a,
                                              std::span<const ValueId> b, std::span<const int64_t> shape);

// N operands of one shape and N scalar initial values.
struct HloFolded {
  std::vector<ValueId> inputs, inits;
  std::vector<int64_t> shape;
  const MlirRegion* region = nullptr;
  const HloFold* fold = nullptr; // of one operand
};
[[nodiscard]] bool readFolded(HloContext&, HloFolded&); // the operands and the region of the op

// A value of the region as text, over its arguments "a0 b0 a1 b1 …" in the order given by `names`. Equal texts
// are equal functions: attributes, constants ("nan", "0") and values from outside ("outer7") are part of it.
// "" where it is too long or contains ops with several results or with regions.
[[nodiscard]] std::string regionExpression(const HloContext&, const MlirRegion&, const MlirUse& value,
                                           std::span<const std::string> names);
// The op of the region that defines a value; nullptr where it is an argument.
[[nodiscard]] const MlirOp* regionMaker(const MlirRegion&, const MlirUse& value);
// A value of the region, computed elementwise on whole tensors.
[[nodiscard]] ValueId regionValue(HloContext&, const MlirRegion&, const MlirUse& value,
                                  std::span<const ValueId> args, std::span<const int64_t> shape);
// The direction and the type of a comparison: "LT", "TOTALORDER".
[[nodiscard]] std::string_view compareWord(const HloContext&, const MlirOp&, std::string_view attribute);

// Maps floats to integers in the order of totalOrder: -NaN, -inf, …, -0, +0, …, inf, NaN; other values are
// unchanged.
[[nodiscard]] ValueId totalOrderKey(HloContext&, ValueId x);

// --- data movement ---
//
// `count` elements start, start + stride, … along a dim.
[[nodiscard]] ValueId sliceAlong(HloContext&, ValueId x, size_t dim, int64_t start, int64_t count,
                                 int64_t stride = 1);
[[nodiscard]] ValueId padWith(HloContext&, ValueId x, ValueId value, std::span<const int64_t> low,
                              std::span<const int64_t> high, std::span<const int64_t> interior);
[[nodiscard]] int64_t elementsOf(std::span<const int64_t> shape); // at most 2^63-1

} // namespace dtc
