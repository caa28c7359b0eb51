// Complex numbers put together and taken apart. All other ops take them where ours do.
#include "HloTable.h"

namespace dtc {

namespace {

bool complex(HloContext& c) {
  if (!c.expectOperands(2)) return false;
  return c.give(c.emit("complex", {c.operand(0), c.operand(1)}));
}

// Of a real number the number itself, and 0.
bool real(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  const ValueId x = c.operand(0);
  return c.give(isComplex(c.dtypeOf(x)) ? c.emit("real", {x}) : x);
}

bool imag(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  const ValueId x = c.operand(0);
  if (isComplex(c.dtypeOf(x))) return c.give(c.emit("imag", {x}));
  return c.give(c.splat(0, c.dtypeOf(x), c.shapeOf(x)));
}

bool conj(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  const ValueId x = c.operand(0);
  return c.give(isComplex(c.dtypeOf(x)) ? c.emit("conj", {x}) : x);
}

const HloRow kRows[] = {
    {"stablehlo.complex", complex},
    {"stablehlo.real", real},
    {"stablehlo.imag", imag},
    {"chlo.conj", conj},
};

} // namespace

std::span<const HloRow> hloComplexRows() { return kRows; }

} // namespace dtc
