#include "elementwise/Special.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

using L = long double;
constexpr L kPi = 3.14159265358979323846264338327950288L;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool isIntegral(double x) { return std::floor(x) == x; }

// Σ (q + i)^-s for q > 0: 24 terms, then Euler and Maclaurin's formula.
L zetaSum(L s, L q) {
  constexpr L bernoulli[] = {1.0L / 12,
                             -1.0L / 720,
                             1.0L / 30240,
                             -1.0L / 1209600,
                             1.0L / 47900160,
                             -691.0L / 1307674368000,
                             1.0L / 74724249600,
                             -3617.0L / 10670622842880000,
                             43867.0L / 5109094217170944000};
  if (std::isinf(q)) return 0;
  L sum = 0;
  int i = 0;
  for (; i < 24; ++i) sum += std::pow(q + i, -s);
  const L a = q + i, last = std::pow(a, -s);
  if (last == 0) return sum;
  sum += last * a / (s - 1) + last / 2;
  L rising = s / a;
  for (int k = 0; k < 9; ++k) {
    sum += bernoulli[k] * last * rising;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2) / (a * a);
  }
  return sum;
}

// exp(-|x|) I_v(x) for v = 0, 1 and x >= 0.
L besselScaled(L x, int v) {
  if (std::isinf(x)) return 0;
  L term = 1, sum = 0;
  if (x <= 32) { // the power series, whose terms are all positive
    if (v) term = x / 2;
    for (int k = 1; k < 200; ++k) {
      sum += term;
      term *= x * x / 4 / k / (k + v);
    }
    return sum * std::exp(-x);
  }
  for (int k = 1; k < 40; ++k) { // the asymptotic series, up to its smallest term
    sum += term;
    const L next = term * (L(2 * k - 1) * (2 * k - 1) - 4 * v) / (8 * k * x);
    if (std::fabs(next) >= std::fabs(term)) break;
    term = next;
  }
  return sum / std::sqrt(2 * kPi * x);
}

} // namespace

double logGamma(double x) {
  if (std::isinf(x) || (x <= 0 && isIntegral(x))) return kInf;
  int sign = 0;
  return static_cast<double>(::lgammal_r(x, &sign)); // std::lgamma writes a global variable
}

double digamma(double x) {
  constexpr L series[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                          1.0L / 132, -691.0L / 32760, 1.0L / 12,  -3617.0L / 8160};
  if (x == kInf) return x;
  if (x <= 0 && isIntegral(x)) return kNaN;
  L y = 0, a = x;
  if (x < 0) { // ψ(x) = ψ(1 - x) - π / tan(πx)
    y = -kPi / std::tan(kPi * (L(x) - std::nearbyint(L(x))));
    a = 1 - L(x);
  }
  for (; a < 24; a += 1) y -= 1 / a;
  L power = 1, rest = 0;
  for (L c : series) rest += c * (power /= a * a);
  return static_cast<double>(y + (std::log(a) - 1 / (2 * a) - rest));
}

double hurwitzZeta(double s, double q) {
  if (!(s >= 1) || std::isnan(q)) return kNaN;
  if (s == 1) return kInf;
  if (q > 0) return static_cast<double>(zetaSum(s, q));
  const bool even = isIntegral(s / 2);
  if (isIntegral(q)) return even ? kInf : kNaN;
  if (!isIntegral(s)) return kNaN;
  // The terms of negative q + i, from the last: down^-s, (1 + down)^-s, … (-q)^-s, with the sign of (-1)^s.
  const L up = L(q) - std::floor(L(q)), down = std::ceil(L(q)) - L(q);
  const L above = zetaSum(s, up), below = zetaSum(s, down), beyond = zetaSum(s, 1 - L(q));
  if (even) return static_cast<double>(above + (below - beyond));
  if (std::isinf(below)) return static_cast<double>(up < down ? above : -below);
  return static_cast<double>((above - below) + beyond);
}

double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (!(n > 0) || !isIntegral(n)) return kNaN;
  const double y = static_cast<double>(std::tgamma(L(n) + 1) * L(hurwitzZeta(n + 1, x)));
  return isIntegral(n / 2) ? -y : y;
}

double besselI0e(double x) { return static_cast<double>(besselScaled(std::fabs(L(x)), 0)); }
double besselI1e(double x) { return std::copysign(static_cast<double>(besselScaled(std::fabs(L(x)), 1)), x); }

// Newton's method on erf near 0 and on log erfc farther out, where it is nearly quadratic; from Winitzki's
// formula.
double erfInv(double x) {
  const L a = std::fabs(L(x));
  if (!(a < 1)) return a == 1 ? x * kInf : kNaN;
  if (a == 0) return x;
  const L w = std::log1p(-a * a), h = 2 / (kPi * 0.147L) + w / 2;
  L y = std::sqrt(std::max<L>(std::sqrt(h * h - w / 0.147L) - h, 0));
  if (y == 0) y = a * std::sqrt(kPi) / 2;
  for (int i = 0; i < 8; ++i) {
    const L slope = 2 / std::sqrt(kPi) * std::exp(-y * y);
    if (a < 0.5L)
      y -= (std::erf(y) - a) / slope;
    else
      y += std::erfc(y) * std::log(std::erfc(y) / (1 - a)) / slope;
  }
  return std::copysign(static_cast<double>(y), x);
}

} // namespace dtc
