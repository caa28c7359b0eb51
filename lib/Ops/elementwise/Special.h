#pragma once
// Special functions in double, for the scalar language. Computed in long double by other methods than those
// of kernels (lib/Kernel/device/special.h), so that each verifies the other. Formulas are from NIST's Digital
// Library of Mathematical Functions: 5.11, 5.15 (digamma, polygamma), 25.11 (Hurwitz zeta), 10.25, 10.40
// (Bessel functions).

namespace dtc {

[[nodiscard]] double logGamma(double); // log |Γ(x)|
[[nodiscard]] double digamma(double);
[[nodiscard]] double hurwitzZeta(double s, double q); // NaN for s < 1, infinite for s = 1
// the n-th derivative of digamma; NaN unless n is an integer
[[nodiscard]] double polygamma(double n, double x);
[[nodiscard]] double besselI0e(double); // exp(-|x|) I0(x)
[[nodiscard]] double besselI1e(double);
[[nodiscard]] double erfInv(double);

} // namespace dtc
