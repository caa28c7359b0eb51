// Special functions, as compositions.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::specials {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Expr self(ImportContext& c) { return tensorOf(in(c, "self")); }

// 0 where x is 0 (and y is not NaN), else x * f(y).
Expr timesLog(Expr x, Expr y, Expr logarithm) {
  const Expr product = x * logarithm;
  const Dims dims = product.dims();
  const Expr none = broadcastTo(ops::eq(x, 0.0), dims);
  const Expr plain = ops::select(none, 0.0, product);
  return ops::select(broadcastTo(ops::is_nan(y), dims), kNan, plain);
}

ImportResults xlogy(ImportContext& c) {
  const Expr x = self(c), y = tensorOf(in(c, "other"));
  return timesLog(x, y, ops::log(y));
}

ImportResults xlog1py(ImportContext& c) {
  const Expr x = self(c), y = tensorOf(in(c, "other"));
  return timesLog(x, y, ops::log1p(y));
}

ImportResults entr(ImportContext& c) { // -x log(x)
  const Expr x = self(c);
  const Expr positive = -(x * ops::log(x));
  const Expr rest = ops::select(ops::eq(x, 0.0), 0.0, ops::select(ops::is_nan(x), x, x.literal(-kInfinity)));
  return ops::select(x > 0.0, positive, rest);
}

ImportResults logit(ImportContext& c) {
  Expr x = self(c);
  if (c.has("eps")) x = ops::clamp(x, x.literal(c.real("eps")), x.literal(1 - c.real("eps")));
  return ops::log(x / (1.0 - x));
}

Expr normalCdf(Expr x) { return ops::erfc(x * -std::numbers::sqrt2 * 0.5) * 0.5; }
ImportResults ndtr(ImportContext& c) { return normalCdf(self(c)); }

// log of the normal CDF: by log1p for x > -1, else by erfc's scaled form as a continued fraction's series.
ImportResults logNdtr(ImportContext& c) {
  const Expr x = self(c), wide = x.as(DType::F64);
  const Expr near = ops::log1p(ops::erfc(wide * (std::numbers::sqrt2 * 0.5)) * -0.5);
  const Expr middle = ops::log(ops::erfc(wide * (-std::numbers::sqrt2 * 0.5)) * 0.5);
  const Expr square = ops::square(wide), inverse = 1.0 / square;
  const Expr series = ((inverse * -15.0 + 3.0) * inverse - 1.0) * inverse;
  const Expr far =
      -(square * 0.5) - ops::log(-wide) - 0.5 * std::log(2 * std::numbers::pi) + ops::log1p(series);
  return ops::select(wide > -1.0, near, ops::select(wide > -20.0, middle, far)).as(x.dtype());
}

ImportResults ndtri(ImportContext& c) { // sqrt(2) erfinv(2 x - 1)
  const Expr x = self(c);
  return ops::erf_inv(x * 2.0 - 1.0) * std::numbers::sqrt2;
}

// exp(x^2) erfc(x): directly where that is finite, else by the asymptotic series.
ImportResults erfcx(ImportContext& c) {
  const Expr x = self(c), wide = x.as(DType::F64);
  const Expr square = ops::square(wide), direct = ops::exp(square) * ops::erfc(wide);
  const Expr inverse = 1.0 / (square * 2.0);
  const Expr series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - inverse * 105.0)));
  const Expr far = series / (wide * std::sqrt(std::numbers::pi));
  return ops::select(wide > 10.0, far, direct).as(x.dtype());
}

ImportResults sinc(ImportContext& c) {
  const Expr x = self(c), angle = x * std::numbers::pi;
  return ops::select(ops::eq(x, 0.0), 1.0, ops::sin(angle) / angle);
}

ImportResults i0(ImportContext& c) {
  const Expr x = self(c);
  return ops::bessel_i0e(x) * ops::exp(ops::abs(x));
}
ImportResults i1(ImportContext& c) {
  const Expr x = self(c);
  return ops::bessel_i1e(x) * ops::exp(ops::abs(x));
}
ImportResults i0e(ImportContext& c) { return ops::bessel_i0e(self(c)); }
ImportResults i1e(ImportContext& c) { return ops::bessel_i1e(self(c)); }

// Whether x is 0 or a negative integer, where PyTorch has infinities.
Expr isPoleOf(Expr x) { return (x <= 0.0) & ops::eq(x, ops::floor(x)); }

ImportResults zeta(ImportContext& c) {
  const Expr s = self(c), q = tensorOf(in(c, "other"));
  const Dims dims = resultDims(c);
  const Expr isPole = ops::eq(s, 1.0) | (ops::not_(s < 1.0) & isPoleOf(q));
  return ops::select(broadcastTo(isPole, dims), kInfinity,
                     ops::zeta(broadcastTo(s, dims), broadcastTo(q, dims)));
}

// At 0, where chlo.digamma is NaN, PyTorch has the limit from the side of the zero's sign.
Expr digammaOf(Expr x) {
  const Expr limit = -1.0 / x, y = ops::digamma(x);
  return ops::select(ops::eq(x, 0.0), limit, y);
}
ImportResults digamma(ImportContext& c) { return digammaOf(self(c)); }

ImportResults polygamma(ImportContext& c) {
  const Expr x = self(c);
  const int64_t n = c.integer("n");
  if (n == 0) return digammaOf(x);
  const Expr y = ops::polygamma(filled(c.b, x.dtype(), x.dims(), static_cast<double>(n)), x);
  return ops::select(isPoleOf(x), n % 2 ? kInfinity : -kInfinity, y);
}

ImportResults mvlgamma(ImportContext& c) {
  const Expr x = self(c);
  const int64_t p = c.integer("p");
  if (p < 1 || p > 4096) c.fail("has p = " + std::to_string(p));
  Expr y =
      filled(c.b, x.dtype(), x.dims(), static_cast<double>(p * (p - 1)) / 4 * std::log(std::numbers::pi));
  for (int64_t i = 0; i < p; ++i) y = y + ops::lgamma(x - static_cast<double>(i) / 2);
  return y;
}

ImportResults log10(ImportContext& c) {
  const Expr x = self(c);
  return ops::log(x) / std::numbers::ln10;
}

ImportResults hypot(ImportContext& c) {
  const Expr a = ops::abs(self(c)), b = ops::abs(tensorOf(in(c, "other")));
  const Expr high = ops::max(a, b), low = ops::min(a, b);
  const Expr ratio = ops::select(ops::eq(high, 0.0), 0.0, low / high);
  const Expr finite = high * ops::sqrt(ops::square(ratio) + 1.0);
  return ops::select(ops::is_inf(high), kInfinity, finite);
}

ImportResults angle(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (isComplex(x.dtype())) return ops::atan2(ops::imag(x), ops::real(x));
  const Expr y = x.as(c.result().dtype);
  const Expr turned = ops::select(y < 0.0, y.literal(std::numbers::pi), y * 0.0);
  return ops::select(ops::is_nan(y), y, turned);
}

// Also of complex numbers, which these ops of dtc do not take.
Expr exp2Of(Expr x) { return isComplex(x.dtype()) ? ops::exp(x * std::numbers::ln2) : ops::exp2(x); }
ImportResults exp2(ImportContext& c) { return exp2Of(self(c)); }
ImportResults silu(ImportContext& c) {
  const Expr x = self(c);
  return isComplex(x.dtype()) ? x / (ops::exp(-x) + 1.0) : ops::silu(x);
}

ImportResults ldexp(ImportContext& c) {
  const Expr x = self(c), n = tensorOf(in(c, "other"));
  return x * exp2Of(n);
}

ImportResults frexp(ImportContext& c) {
  const Expr x = c.tensor("self"), size = ops::abs(x);
  const Expr special = ops::eq(x, 0.0) | ops::not_(ops::is_finite(x));
  const Expr safe = ops::select(special, 1.0, size);
  // log2 may be off by one near powers of two.
  Expr e = ops::floor(ops::log2(safe)) + 1.0;
  Expr m = safe / ops::exp2(e);
  const Expr low = m < 0.5, high = m >= 1.0;
  e = ops::select(low, e - 1.0, ops::select(high, e + 1.0, e));
  m = ops::select(low, m * 2.0, ops::select(high, m * 0.5, m));
  const Expr mantissa = ops::select(special, x, m * ops::sign(x));
  return {mantissa, ops::select(special, 0.0, e).as(DType::I32)};
}

ImportResults expit2(ImportContext& c) { // special_exp2 and its like are aliases
  return ops::exp2(self(c));
}

// Chebyshev, Hermite, Laguerre and Legendre polynomials by their recurrences: p0 = 1, p1 = slope * x + offset,
// p(n+1) = (a(n) x + k(n)) p(n) - b(n) p(n-1).
template <class A, class B, class K> struct Recurrence {
  double slope, offset;
  A a;
  B b;
  K k;
};

// Of a degree that is a number.
template <class R> Expr ofDegree(ImportContext& c, const R& r, Expr x, int64_t degree) {
  constexpr int64_t kMostDegrees = 64; // the ops are unrolled
  if (degree > kMostDegrees) c.fail("has a degree above 64");
  if (degree < 0) return filled(c.b, x.dtype(), x.dims(), 0);
  Expr before = filled(c.b, x.dtype(), x.dims(), 1), now = x * r.slope + r.offset;
  if (degree == 0) return before;
  for (int64_t n = 1; n < degree; ++n) {
    const auto d = static_cast<double>(n);
    const Expr next = (x * r.a(d) + r.k(d)) * now - before * r.b(d);
    before = now, now = next;
  }
  return now;
}

// Of a degree per element: a loop up to the largest.
template <class R> Expr ofDegrees(ImportContext& c, const R& r, Expr x, Expr degrees) {
  const Expr last = ops::max(degrees, ops::MaxArgs{});
  const Expr one = filled(c.b, x.dtype(), x.dims(), 1), first = x * r.slope + r.offset;
  const Expr low = ops::select(degrees < 0, 0.0, one);
  const Expr start = ops::select(degrees >= 1, first, low);
  return ops::forLoop(
      c.b, int64_t(1), last, {one, first, start}, [&](Builder& in, Expr n, std::span<const ValueId> v) {
        const Expr at(in, x), of(in, degrees), before(in, v[0]), now(in, v[1]), found(in, v[2]);
        const Expr d = n.as(at.dtype());
        const Expr factor = at * r.a(d) + r.k(d);
        const Expr next = factor * now - before * r.b(d);
        return std::vector<ValueId>{now, next, ops::select(ops::eq(of, n + 1), next, found)};
      })[2];
}

template <const auto& r, int shift = 0> ImportResults polynomialOf(ImportContext& c) {
  const Dims dims = resultDims(c);
  const Expr given = broadcastTo(tensorOf(in(c, "x")), dims), x = shift ? given * 2.0 - 1.0 : given;
  if (!c.isTensor("n")) return ofDegree(c, r, x, static_cast<int64_t>(c.real("n")));
  return ofDegrees(c, r, x, broadcastTo(c.tensor("n").as(DType::I32), dims));
}

constexpr auto always = [](double v) { return [v](auto n) { return n * 0.0 + v; }; };
constexpr auto kNothing = always(0);
constexpr Recurrence kChebyshevT{1, 0, always(2), always(1), kNothing};
constexpr Recurrence kChebyshevU{2, 0, always(2), always(1), kNothing};
constexpr Recurrence kChebyshevV{2, -1, always(2), always(1), kNothing};
constexpr Recurrence kChebyshevW{2, 1, always(2), always(1), kNothing};
constexpr Recurrence kHermite{2, 0, always(2), [](auto n) { return n * 2.0; }, kNothing};
constexpr Recurrence kHermiteE{1, 0, always(1), [](auto n) { return n * 1.0; }, kNothing};
constexpr Recurrence kLaguerre{-1, 1, [](auto n) { return -1.0 / (n + 1.0); },
                               [](auto n) { return n / (n + 1.0); },
                               [](auto n) { return (n * 2.0 + 1.0) / (n + 1.0); }};
constexpr Recurrence kLegendre{1, 0, [](auto n) { return (n * 2.0 + 1.0) / (n + 1.0); },
                               [](auto n) { return n / (n + 1.0); }, kNothing};

const ImportRow kRows[] = {
    {"aten.xlogy", xlogy},
    {"aten.special_xlogy", xlogy},
    {"aten.special_xlog1py", xlog1py},
    {"aten.special_entr", entr},
    {"aten.logit", logit},
    {"aten.special_logit", logit},
    {"aten.special_ndtr", ndtr},
    {"aten.special_log_ndtr", logNdtr},
    {"aten.special_ndtri", ndtri},
    {"aten.special_erfcx", erfcx},
    {"aten.sinc", sinc},
    {"aten.special_sinc", sinc},
    {"aten.i0", i0},
    {"aten.special_i0", i0},
    {"aten.special_i0e", i0e},
    {"aten.special_i1", i1},
    {"aten.special_i1e", i1e},
    {"aten.special_zeta", zeta},
    {"aten.digamma", digamma},
    {"aten.polygamma", polygamma},
    {"aten.special_polygamma", polygamma},
    {"aten.mvlgamma", mvlgamma},
    {"aten.special_multigammaln", mvlgamma},
    {"aten.log10", log10},
    {"aten.hypot", hypot},
    {"aten.angle", angle},
    {"aten.exp2", exp2},
    {"aten.silu", silu},
    {"aten.ldexp", ldexp},
    {"aten.frexp", frexp},
    {"aten.special_exp2", expit2},
    {"aten.special_chebyshev_polynomial_t", polynomialOf<kChebyshevT>},
    {"aten.special_chebyshev_polynomial_u", polynomialOf<kChebyshevU>},
    {"aten.special_chebyshev_polynomial_v", polynomialOf<kChebyshevV>},
    {"aten.special_chebyshev_polynomial_w", polynomialOf<kChebyshevW>},
    {"aten.special_shifted_chebyshev_polynomial_t", polynomialOf<kChebyshevT, 1>},
    {"aten.special_shifted_chebyshev_polynomial_u", polynomialOf<kChebyshevU, 1>},
    {"aten.special_shifted_chebyshev_polynomial_v", polynomialOf<kChebyshevV, 1>},
    {"aten.special_shifted_chebyshev_polynomial_w", polynomialOf<kChebyshevW, 1>},
    {"aten.special_hermite_polynomial_h", polynomialOf<kHermite>},
    {"aten.special_hermite_polynomial_he", polynomialOf<kHermiteE>},
    {"aten.special_laguerre_polynomial_l", polynomialOf<kLaguerre>},
    {"aten.special_legendre_polynomial_p", polynomialOf<kLegendre>},
};

} // namespace
} // namespace aten::specials

ImportRows torchSpecialRows() { return aten::specials::kRows; }

} // namespace dtc
