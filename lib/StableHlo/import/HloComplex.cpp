// Construction and parts of complex numbers. All other ops take complex operands where dtc's do.
#include "import/HloTable.h"

namespace dtc {

namespace {

bool complex(HloContext& c) { return c.setResult(c.emit("complex", {c.operand(0), c.operand(1)})); }

// For a real operand: the operand itself, and 0.
bool real(HloContext& c) {
  const ValueId x = c.operand(0);
  return c.setResult(isComplex(c.dtypeOf(x)) ? c.emit("real", {x}) : x);
}

bool imag(HloContext& c) {
  const ValueId x = c.operand(0);
  if (isComplex(c.dtypeOf(x))) return c.setResult(c.emit("imag", {x}));
  return c.setResult(c.splat(0, c.dtypeOf(x), c.shapeOf(x)));
}

bool conj(HloContext& c) {
  const ValueId x = c.operand(0);
  return c.setResult(isComplex(c.dtypeOf(x)) ? c.emit("conj", {x}) : x);
}

const HloRow kComplexRows[] = {
    {"stablehlo.complex", complex, 2},
    {"stablehlo.real", real, 1},
    {"stablehlo.imag", imag, 1},
    {"chlo.conj", conj, 1},
};

} // namespace

std::span<const HloRow> hloComplexRows() { return kComplexRows; }

} // namespace dtc
