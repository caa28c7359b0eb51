#pragma once
// Decompositions with numbers that narrow floats lack (eps, the scale of attention): what these numbers enter is in f32.
#include "dtc/Ops/OpFunctions.h"
#include <cmath>

namespace dtc::ops {

// x in its accumulation dtype, unless the builder's literals have that precision anyway.
[[nodiscard]] inline Expr withPrecision(Expr x) {
  return x.builder().exact ? x : x.as(accumulationType(x.dtype()));
}
// The same for a sum with eps or a comparison with it, unless the dtype has that number, but for the rounding of a
// float: eps is added to variances, which are mostly larger.
[[nodiscard]] inline Expr withPrecision(Expr x, double eps) {
  constexpr double kRounding = 1.0 / 256; // more than that of bf16
  const bool has =
      isFloat(x.dtype()) && std::abs(roundToFloat(x.dtype(), eps) - eps) <= kRounding * std::abs(eps);
  return has ? x : withPrecision(x);
}
// Computed in the wider of the two dtypes; the result has that of x.
[[nodiscard]] inline Expr times(Expr x, Expr factor) {
  const DType wide = std::max(x.dtype(), factor.dtype());
  const Expr left = x.as(wide);
  return (left * factor.as(wide)).as(x.dtype());
}
[[nodiscard]] inline Expr dividedBy(Expr x, Expr divisor) {
  const DType wide = std::max(x.dtype(), divisor.dtype());
  const Expr left = x.as(wide);
  return (left / divisor.as(wide)).as(x.dtype());
}

} // namespace dtc::ops
