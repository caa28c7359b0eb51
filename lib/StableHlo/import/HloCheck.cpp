// The check dialect, with which StableHLO's own tests state their expected results.
#include "import/HloTable.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// Complex values are compared by the ops themselves, real and imaginary part separately.
bool expectEq(HloContext& c, ValueId got, ValueId want) {
  return c.emitOp("expect_eq", std::vector{got, want}).valid();
}

bool equal(HloContext& c) { return c.expectOperands(2) && expectEq(c, c.operand(0), c.operand(1)); }

bool close(HloContext& c, ValueId got, ValueId want, double rtol, double atol) {
  if (!got.valid() || !want.valid()) return false;
  DType d = c.dtypeOf(got);
  if (isInteger(d) || isBool(d)) return expectEq(c, got, want);
  return c
      .emitOp("expect_close", std::vector{got, want},
              {{"rtol", c.realAttr(rtol)}, {"atol", c.realAttr(atol)}})
      .valid();
}

// A distance in units in the last place: of the value, and of the smallest normal number.
bool closeUnits(HloContext& c) {
  if (!c.expectOperands(2)) return false;
  auto units = c.integerOr("max_ulp_difference", 3);
  if (!units) return false;
  DType d = partType(c.dtypeOf(c.operand(0)));
  double eps = isFloat(d) ? std::ldexp(static_cast<double>(*units), 1 - mantissaBits(d)) : 0;
  double minExponent = d == DType::F64                         ? -1022
                       : d == DType::F16 || d == DType::F8E5M2 ? -14
                       : d == DType::F8E4M3                    ? -6
                                                               : -126;
  return close(c, c.operand(0), c.operand(1), eps, std::ldexp(eps, static_cast<int>(minExponent)));
}

constexpr double kAlmost = 1e-3; // relative, and absolute around 0

bool almostEqual(HloContext& c) {
  if (!c.expectOperands(2)) return false;
  auto tolerance = c.has("tolerance") ? c.real("tolerance") : std::optional(kAlmost);
  return tolerance && close(c, c.operand(0), c.operand(1), *tolerance, *tolerance);
}

ValueId expected(HloContext& c) {
  ValueId got = c.operand(0);
  const MlirAttr* value = c.attr("value");
  if (!got.valid()) return {};
  if (!value) {
    c.fail("needs its value, as in dense<0.0>");
    return {};
  }
  std::string why;
  auto numbers = readNumbers(c.module.source.text, c.tree(), *value, c.dtypeOf(got),
                             c.typeOf(got).numElements().value_or(0), why);
  if (numbers) return c.constant(*numbers, c.module[got].type);
  c.failAt(value->range, why);
  return {};
}

bool equalConst(HloContext& c) { return expectEq(c, c.operand(0), expected(c)); }

bool almostEqualConst(HloContext& c) {
  auto tolerance = c.has("tolerance") ? c.real("tolerance") : std::optional(kAlmost);
  return tolerance && close(c, c.operand(0), expected(c), *tolerance, *tolerance);
}

// The old forms return i1[]; a failure has already ended the run.
bool holds(HloContext& c) { return c.numResults() == 0 || c.setResult(c.splat(1, DType::Bool, {})); }

bool customEqual(HloContext& c) { return equal(c) && holds(c); }
// The oldest test data: floats were compared with a tolerance. A narrow float may differ in its last bit.
bool customSame(HloContext& c) {
  const int bits = mantissaBits(partType(c.dtypeOf(c.operand(0))));
  const double tolerance = std::max(kAlmost, std::ldexp(1.0, 1 - bits));
  return close(c, c.operand(0), c.operand(1), tolerance, tolerance) && holds(c);
}
// Test data states no tolerance: use the difference allowed between two correct programs, as in
// `expect_close`; where sums cancel (a Fourier transform, a convolution), some units of the tensor's typical
// magnitude.
bool customClose(HloContext& c) {
  if (c.has("max_ulp_difference")) return closeUnits(c) && holds(c);
  if (!c.expectOperands(2)) return false;
  ValueId got = c.operand(0), want = c.operand(1);
  DType d = c.dtypeOf(got);
  if (isInteger(d) || isBool(d)) return expectEq(c, got, want) && holds(c);
  constexpr double typical = 8;
  const double units = std::ldexp(typical, 1 - mantissaBits(partType(d)));
  return c.emitOp("expect_close", std::vector{got, want}, {{"typical", c.realAttr(units)}}).valid() &&
         holds(c);
}
bool customAlmostEqual(HloContext& c) { return almostEqual(c) && holds(c); }

const HloRow kCheckRows[] = {
    {"check.expect_almost_eq", almostEqual},
    {"check.expect_almost_eq_const", almostEqualConst, 1},
    {"check.expect_close", closeUnits},
    {"check.expect_eq", equal},
    {"check.expect_eq_const", equalConst, 1},
    {"custom_call @check.eq", customSame, 2},
    {"custom_call @check.expect_almost_eq", customAlmostEqual},
    {"custom_call @check.expect_close", customClose},
    {"custom_call @check.expect_eq", customEqual},
};

} // namespace

std::span<const HloRow> hloCheckRows() { return kCheckRows; }

} // namespace dtc
