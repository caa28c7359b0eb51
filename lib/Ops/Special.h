#pragma once
// Functions of mathematical physics in double, for the scalar language: carried in long double, by other ways than the kernels'
// (lib/Jit/Device/special.h), so that each checks the other. NIST's Digital Library of Mathematical Functions has the formulas:
// 5.11, 5.15 (digamma, polygamma), 25.11 (Hurwitz's zeta), 10.25, 10.40 (Bessel functions).

namespace dtc {

[[nodiscard]] double logGamma(double); // log |Γ(x)|
[[nodiscard]] double digamma(double);
[[nodiscard]] double hurwitzZeta(double s, double q); // NaN for s < 1, infinite for s = 1
[[nodiscard]] double polygamma(double n,
                               double x); // the n-th derivative of digamma; n a whole number, else NaN
[[nodiscard]] double besselI0e(double);   // exp(-|x|) I0(x)
[[nodiscard]] double besselI1e(double);
[[nodiscard]] double erfInv(double);

} // namespace dtc
