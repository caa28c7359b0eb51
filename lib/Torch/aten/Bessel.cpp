// Bessel and Airy functions and incomplete gamma functions, as compositions in f64.
#include "BesselTables.h"
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace dtc {
namespace aten::bessel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Expr argument(ImportContext& c) {
  return tensorOf(in(c, c.has("self") ? "self" : "x", floatOf(c.result().dtype))).as(DType::F64);
}

ImportResults inResult(const ImportContext& c, Expr y) { return y.as(c.result().dtype); }

Expr polynomial(std::span<const double> coefficients, Expr t) {
  Expr y = t * coefficients.back() + coefficients[coefficients.size() - 2];
  for (size_t i = coefficients.size() - 2; i-- > 0;) y = y * t + coefficients[i];
  return y;
}

// --- J and Y: over x^2 up to x = 8, then sqrt(2 / pi x) (P cos(x - a) - Q sin(x - a)) and its like ---

constexpr double kFar = 8;

struct Waves {
  Expr cosine, sine, p, q, scale;
};

// P and Q are over (8 / x)^2; a = pi / 4 or 3 pi / 4.
Waves wavesOf(int order, Expr x) {
  const Expr ratio = kFar / x, u = ops::square(ratio) * 2.0 - 1.0;
  const Expr s = ops::sin(x), c = ops::cos(x);
  const double half = std::numbers::sqrt2 / 2;
  Waves w;
  w.cosine = (order == 0 ? c + s : s - c) * half;
  w.sine = (order == 0 ? s - c : -(s + c)) * half;
  w.p = polynomial(order == 0 ? std::span<const double>(kCosine0) : kCosine1, u);
  w.q = polynomial(order == 0 ? std::span<const double>(kSine0) : kSine1, u) * ratio;
  w.scale = ops::sqrt((2 / std::numbers::pi) / x);
  return w;
}

Expr nearJ(int order, Expr x) {
  const Expr t = ops::square(x) / 32.0 - 1.0;
  return order == 0 ? polynomial(kJ0, t) : polynomial(kJ1, t) * x;
}

template <int order> ImportResults besselJ(ImportContext& c) {
  const Expr x = argument(c), size = ops::abs(x);
  const Expr isNear = size <= kFar, isInfinite = ops::is_inf(x);
  const Expr far = ops::select(isNear | isInfinite, kFar, size);
  const Waves waves = wavesOf(order, far);
  const Expr wide = waves.scale * (waves.p * waves.cosine - waves.q * waves.sine);
  const Expr outside = ops::select(isInfinite, 0.0, order == 0 ? wide : wide * ops::sign(x));
  return inResult(c, ops::select(isNear, nearJ(order, ops::select(isNear, x, 0.0)), outside));
}

template <int order> ImportResults besselY(ImportContext& c) {
  const Expr x = argument(c);
  const Expr isNear = (x > 0.0) & (x <= kFar), isFar = (x > kFar) & ops::not_(ops::is_inf(x));
  const Expr inner = ops::select(isNear, x, 1.0);
  const Expr t = ops::square(inner) / 32.0 - 1.0, j = nearJ(order, inner) * ops::log(inner);
  const double turn = 2 / std::numbers::pi;
  const Expr near =
      order == 0 ? j * turn + polynomial(kY0, t) : (j - 1.0 / inner) * turn + polynomial(kY1, t) * inner;
  const Waves w = wavesOf(order, ops::select(isFar, x, kFar));
  const Expr far = w.scale * (w.p * w.sine + w.q * w.cosine);
  const Expr limit = ops::select(ops::eq(x, 0.0), x.literal(-kInfinity),
                                 ops::select(ops::eq(x, kInfinity), 0.0, x * 0.0 + kNan));
  return inResult(c, ops::select(isNear, near, ops::select(isFar, far, limit)));
}

// --- K, or exp(x) K: over x^2 up to x = 2, then over 4 / x ---

template <int order, bool scaled> ImportResults besselK(ImportContext& c) {
  const Expr x = argument(c);
  const Expr isNear = (x > 0.0) & (x <= 2.0);
  const Expr inner = ops::select(isNear, x, 1.0), t = ops::square(inner) / 2.0 - 1.0;
  const Expr growth = ops::exp(inner), turned = ops::log(inner / 2.0) * growth;
  Expr near = order == 0 ? polynomial(kK0, t) - turned * ops::bessel_i0e(inner)
                         : polynomial(kK1, t) / inner + turned * ops::bessel_i1e(inner);
  if (scaled) near = near * growth;
  const Expr outer = ops::select(x > 2.0, x, 2.0), u = 4.0 / outer - 1.0;
  Expr far = polynomial(order == 0 ? std::span<const double>(kFarK0) : kFarK1, u) / ops::sqrt(outer);
  if (!scaled) far = far * ops::exp(-outer);
  const Expr limit = ops::select(ops::eq(x, 0.0), kInfinity, x * 0.0 + kNan);
  return inResult(c, ops::select(isNear, near, ops::select(x > 2.0, far, limit)));
}

// Ai: over x from -5 to 3; above by exp(-z) / x^(1/4), z = 2/3 x^(3/2); below by waves of z.
ImportResults airy(ImportContext& c) {
  const double low = -5, high = 3, most = 2.0 / 3 * std::pow(high, 1.5),
               least = 2.0 / 3 * std::pow(-low, 1.5);
  const Expr x = argument(c);
  const Expr isHigh = x > high, isLow = x < low;
  const Expr middle = polynomial(kAi, (ops::clamp(x, low, high) + 1.0) / 4.0);
  const Expr up = ops::select(isHigh, ops::min(x, 1e4), high), upZ = up * ops::sqrt(up) * (2.0 / 3);
  const Expr above = polynomial(kFarAi, (2 * most) / upZ - 1.0) * ops::exp(-upZ) / ops::sqrt(ops::sqrt(up));
  const Expr down = ops::select(isLow, -x, -low), downZ = down * ops::sqrt(down) * (2.0 / 3);
  const Expr ratio = least / downZ, u = ops::square(ratio) * 2.0 - 1.0;
  const Expr s = ops::sin(downZ), k = ops::cos(downZ);
  const double half = std::numbers::sqrt2 / 2;
  const Expr wave = polynomial(kCosineAi, u) * (k + s) + polynomial(kSineAi, u) / downZ * (s - k);
  const Expr below = ops::select(ops::is_inf(down), 0.0, wave * half / ops::sqrt(ops::sqrt(down)));
  return inResult(c, ops::select(isHigh, above, ops::select(isLow, below, middle)));
}

// --- regularized incomplete gamma functions P(a, x) and Q = 1 - P ---

constexpr int64_t kMostTerms = 20000;
constexpr double kEnough = 1e-16;

Expr someOf(Expr p) { return ops::any(p); }

// sum of x^n / ((a+1) ... (a+n)), for x < a + 1
Expr gammaSeries(Builder& b, Expr a, Expr x) {
  const Expr one = a * 0.0 + 1.0, count = filledInt(b, DType::I32, {}, 0);
  return ops::whileLoop(
      b, {count, one, one},
      [](Builder& in, std::span<const ValueId> v) {
        const Expr n(in, v[0]), term(in, v[1]), sum(in, v[2]);
        return std::vector<ValueId>{(n < kMostTerms) & someOf(term > sum * kEnough)};
      },
      [&](Builder& in, std::span<const ValueId> v) {
        const Expr n(in, v[0]), term(in, v[1]), sum(in, v[2]), at(in, x), from(in, a);
        const Expr next = n + 1, now = term * (at / (from + next.as(DType::F64)));
        return std::vector<ValueId>{next, now, sum + now};
      })[2];
}

// Lentz's method for 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), for x >= a + 1
Expr gammaFraction(Builder& b, Expr a, Expr x) {
  constexpr double kTiny = 1e-300;
  const Expr start = x + 1.0 - a, d = 1.0 / start, c = a * 0.0 + 1 / kTiny;
  const Expr count = filledInt(b, DType::I32, {}, 0), moving = ops::ne(a, kInfinity);
  return ops::whileLoop(
      b, {count, materialized(c), d, d, moving},
      [](Builder& in, std::span<const ValueId> v) {
        return std::vector<ValueId>{(Expr(in, v[0]) < kMostTerms) & someOf(Expr(in, v[4]))};
      },
      [&](Builder& in, std::span<const ValueId> v) {
        const Expr n = Expr(in, v[0]) + 1, k = n.as(DType::F64), first(in, start), of(in, a);
        const Expr numerator = (of - k) * k, base = first + k * 2.0;
        const auto guarded = [&](Expr e) { return ops::select(ops::abs(e) < kTiny, kTiny, e); };
        const Expr c = guarded(numerator / Expr(in, v[1]) + base);
        const Expr d = 1.0 / guarded(numerator * Expr(in, v[2]) + base);
        const Expr factor = c * d, h = Expr(in, v[3]) * factor;
        return std::vector<ValueId>{n, c, d, h, ops::abs(factor - 1.0) > 2 * kEnough};
      })[3];
}

template <bool upper> ImportResults incompleteGamma(ImportContext& c) {
  const Dims dims = resultDims(c);
  const Expr a = broadcastTo(tensorOf(in(c, "self")).as(DType::F64), dims),
             x = broadcastTo(tensorOf(in(c, "other")).as(DType::F64), dims);
  const Expr regular = (a > 0.0) & (x > 0.0) & ops::is_finite(a) & ops::is_finite(x);
  const Expr below = regular & (x < a + 1.0), above = regular & (x >= a + 1.0);
  const Expr a1 = ops::select(below, a, 1.0), x1 = ops::select(below, x, 0.5);
  const Expr a2 = ops::select(above, a, 1.0), x2 = ops::select(above, x, 4.0);
  const auto scale = [](Expr of, Expr at) { return ops::exp(of * ops::log(at) - at - ops::lgamma(of)); };
  const Expr low = gammaSeries(c.b, a1, x1) * scale(a1, x1) / a1;
  const Expr high = gammaFraction(c.b, a2, x2) * scale(a2, x2);
  const Expr p = ops::select(below, low, 1.0 - high), q = ops::select(below, 1.0 - low, high);
  // Limits: all of the mass is below x = inf and above x = 0; of a = 0, at 0; of a = inf, at inf.
  const Expr none = ops::eq(x, 0.0) | ops::is_inf(a), all = ops::eq(a, 0.0) | ops::is_inf(x);
  const Expr invalid = (a < 0.0) | (x < 0.0) | ops::is_nan(a) | ops::is_nan(x) | (none & all);
  const Expr limit = ops::select(invalid, kNan, (upper ? none : all).as(DType::F64));
  return inResult(c, ops::select(regular, upper ? q : p, limit));
}

const ImportRow kRows[] = {
    {"aten.special_bessel_j0", besselJ<0>},
    {"aten.special_bessel_j1", besselJ<1>},
    {"aten.special_bessel_y0", besselY<0>},
    {"aten.special_bessel_y1", besselY<1>},
    {"aten.special_modified_bessel_k0", besselK<0, false>},
    {"aten.special_modified_bessel_k1", besselK<1, false>},
    {"aten.special_scaled_modified_bessel_k0", besselK<0, true>},
    {"aten.special_scaled_modified_bessel_k1", besselK<1, true>},
    {"aten.special_airy_ai", airy},
    {"aten.igamma", incompleteGamma<false>},
    {"aten.special_gammainc", incompleteGamma<false>},
    {"aten.igammac", incompleteGamma<true>},
    {"aten.special_gammaincc", incompleteGamma<true>},
};

} // namespace
} // namespace aten::bessel

ImportRows torchBesselRows() { return aten::bessel::kRows; }

} // namespace dtc
