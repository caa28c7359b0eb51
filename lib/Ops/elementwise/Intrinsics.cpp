// The functions of the scalar language: their values on doubles and on wrapped integers (ir.md, "Edges").
#include "dtc/Ops/record/Scalar.h"
#include "elementwise/Special.h"
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

using I = int64_t;
using U = uint64_t;

// --- floats ---
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a; // +0 above -0, as in the ordered integers that collectives send
  return a > b ? a : b;
}
double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double signOf(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; }
// As in Python: the remainder is exact, so that rounding of a/b does not change the quotient.
double floorMod(double a, double b) {
  double m = std::fmod(a, b);
  if (m == 0) return std::copysign(0.0, b);
  return (m < 0) != (b < 0) ? m + b : m;
}
// As in NumPy, PyTorch and JAX: b * floorDiv + floorMod is a.
double floorDiv(double a, double b) {
  if (b == 0) return a / b;
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

// --- integers ---
bool isU(DType d) { return isUnsignedInt(d); }
int bitsOf(DType d) { return 8 * dtypeBytes(d); }
U bitsAsUnsigned(DType d, I a) { return bitsOf(d) == 64 ? U(a) : U(a) & ((U(1) << bitsOf(d)) - 1); }
I wrap(DType d, U v) { return isBool(d) ? I(v != 0) : wrapToInt(d, static_cast<I>(v)); }
bool less(DType d, I a, I b) { return isU(d) ? U(a) < U(b) : a < b; }

I intAbs(DType d, I a) { return isU(d) || a >= 0 ? a : wrap(d, U(0) - U(a)); }
I intSign(DType d, I a) { return a == 0 ? 0 : (isU(d) || a > 0) ? 1 : -1; }
I intDiv(DType d, I a, I b) {
  if (b == 0) return 0;
  if (isU(d)) return static_cast<I>(U(a) / U(b));
  return b == -1 ? wrap(d, U(0) - U(a)) : a / b; // INT_MIN / -1 wraps to INT_MIN
}
I intRem(DType d, I a, I b) {
  if (b == 0 || (b == -1 && !isU(d))) return 0;
  return isU(d) ? static_cast<I>(U(a) % U(b)) : a % b;
}
I intFloorDiv(DType d, I a, I b) {
  I q = intDiv(d, a, b);
  return b != 0 && !isU(d) && intRem(d, a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
I intMod(DType d, I a, I b) {
  I r = intRem(d, a, b);
  return !isU(d) && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
I intShl(DType d, I a, I n) { return U(n) >= U(bitsOf(d)) ? 0 : wrap(d, U(a) << U(n)); }
I intShr(DType d, I a, I n) {
  bool past = U(n) >= U(bitsOf(d));
  if (isU(d)) return past ? 0 : static_cast<I>(U(a) >> U(n));
  return past ? (a < 0 ? -1 : 0) : a >> n;
}
I intPow(DType d, I base, I exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 && !isU(d) ? (exponent % 2 ? -1 : 1) : 0;
  U result = 1, square = U(base);
  for (U e = U(exponent); e; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return wrap(d, result);
}

// Block `number` of Philox4x32-10 with the key `key` and the upper half `upper` of the counter (Random.cpp).
std::array<uint32_t, 4> philox(U number, U key, U upper) {
  std::array<uint32_t, 4> c = {uint32_t(number), uint32_t(number >> 32), uint32_t(upper),
                               uint32_t(upper >> 32)};
  auto k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const U p0 = U(0xD2511F53u) * c[0], p1 = U(0xCD9E8D57u) * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
  }
  return c;
}
I random32(U i, U key, U upper) { return philox(i / 4, key, upper)[i % 4]; }
I random64(U i, U key, U upper) {
  const auto word = philox(i / 2, key, upper);
  return static_cast<I>(U(word[2 * (i % 2) + 1]) << 32 | word[2 * (i % 2)]);
}

#define F1(e) [](double a, double, double) -> double { return e; }
#define F2(e) [](double a, double b, double) -> double { return e; }
#define F3(e) [](double a, double b, double c) -> double { return e; }
#define I1(e)                                                                                                \
  [](DType d, I a, I, I) -> I {                                                                              \
    (void)d;                                                                                                 \
    return e;                                                                                                \
  }
#define I2(e)                                                                                                \
  [](DType d, I a, I b, I) -> I {                                                                            \
    (void)d;                                                                                                 \
    return e;                                                                                                \
  }
#define I3(e)                                                                                                \
  [](DType d, I a, I b, I c) -> I {                                                                          \
    (void)d;                                                                                                 \
    return e;                                                                                                \
  }

using R = Intrinsic;
constexpr Intrinsic kIntrinsics[] = {
    {"add", 2, R::Same, "+", F2(a + b), I2(wrap(d, U(a) + U(b))), "add"},
    {"sub", 2, R::Same, "-", F2(a - b), I2(wrap(d, U(a) - U(b))), "subtract"},
    {"mul", 2, R::Same, "*", F2(a* b), I2(wrap(d, U(a) * U(b))), "multiply"},
    {"div", 2, R::Same, "/", F2(a / b), I2(intDiv(d, a, b)), "divide"},
    {"floor_div", 2, R::Same, nullptr, F2(floorDiv(a, b)), I2(intFloorDiv(d, a, b))},
    {"rem", 2, R::Same, nullptr, F2(std::fmod(a, b)), I2(intRem(d, a, b)), "remainder", true},
    {"mod", 2, R::Same, nullptr, F2(floorMod(a, b)), I2(intMod(d, a, b)), nullptr, true},
    {"pow", 2, R::First, nullptr, F2(std::pow(a, b)), I2(intPow(d, a, b)), nullptr, true},
    {"max", 2, R::Same, nullptr, F2(maximum(a, b)), I2(less(d, a, b) ? b : a), "maximum"},
    {"min", 2, R::Same, nullptr, F2(minimum(a, b)), I2(less(d, b, a) ? b : a), "minimum"},
    {"atan2", 2, R::Same, nullptr, F2(std::atan2(a, b)), nullptr, "atan2", true},
    {"and", 2, R::Same, nullptr, nullptr, I2(a& b), "and"},
    {"or", 2, R::Same, nullptr, nullptr, I2(a | b), "or"},
    {"xor", 2, R::Same, nullptr, nullptr, I2(wrap(d, U(a) ^ U(b))), "xor"},
    {"shl", 2, R::Same, nullptr, nullptr, I2(intShl(d, a, b)), "shift_left"},
    {"shr", 2, R::Same, nullptr, nullptr, I2(intShr(d, a, b))},
    {"eq", 2, R::Bool, "==", F2(a == b), I2(a == b), "EQ"},
    {"ne", 2, R::Bool, "!=", F2(a != b), I2(a != b), "NE"},
    {"lt", 2, R::Bool, "<", F2(a < b), I2(less(d, a, b)), "LT"},
    {"le", 2, R::Bool, "<=", F2(a <= b), I2(!less(d, b, a)), "LE"},
    {"gt", 2, R::Bool, ">", F2(a > b), I2(less(d, b, a)), "GT"},
    {"ge", 2, R::Bool, ">=", F2(a >= b), I2(!less(d, a, b)), "GE"},
    {"neg", 1, R::Same, nullptr, F1(-a), I1(wrap(d, U(0) - U(a))), "negate"},
    {"abs", 1, R::Same, nullptr, F1(std::fabs(a)), I1(intAbs(d, a)), "abs"},
    {"sign", 1, R::Same, nullptr, F1(signOf(a)), I1(intSign(d, a)), "sign"},
    {"not", 1, R::Same, nullptr, nullptr, I1(isBool(d) ? I(a == 0) : wrap(d, ~U(a))), "not"},
    {"exp", 1, R::Same, nullptr, F1(std::exp(a)), nullptr, "exponential", true},
    {"exp2", 1, R::Same, nullptr, F1(std::exp2(a)), nullptr, nullptr, true},
    {"expm1", 1, R::Same, nullptr, F1(std::expm1(a)), nullptr, "exponential_minus_one", true},
    {"log", 1, R::Same, nullptr, F1(std::log(a)), nullptr, "log", true},
    {"log2", 1, R::Same, nullptr, F1(std::log2(a)), nullptr, nullptr, true},
    {"log1p", 1, R::Same, nullptr, F1(std::log1p(a)), nullptr, "log_plus_one", true},
    {"sqrt", 1, R::Same, nullptr, F1(std::sqrt(a)), nullptr, "sqrt"},
    {"rsqrt", 1, R::Same, nullptr, F1(1.0 / std::sqrt(a)), nullptr, "rsqrt"},
    {"sin", 1, R::Same, nullptr, F1(std::sin(a)), nullptr, "sine", true},
    {"cos", 1, R::Same, nullptr, F1(std::cos(a)), nullptr, "cosine", true},
    {"tan", 1, R::Same, nullptr, F1(std::tan(a)), nullptr, "tan", true},
    {"asin", 1, R::Same, nullptr, F1(std::asin(a)), nullptr, "chlo.asin", true},
    {"acos", 1, R::Same, nullptr, F1(std::acos(a)), nullptr, "chlo.acos", true},
    {"atan", 1, R::Same, nullptr, F1(std::atan(a)), nullptr, "chlo.atan", true},
    {"sinh", 1, R::Same, nullptr, F1(std::sinh(a)), nullptr, "chlo.sinh", true},
    {"cosh", 1, R::Same, nullptr, F1(std::cosh(a)), nullptr, "chlo.cosh", true},
    {"tanh", 1, R::Same, nullptr, F1(std::tanh(a)), nullptr, "tanh", true},
    {"erf", 1, R::Same, nullptr, F1(std::erf(a)), nullptr, "chlo.erf", true},
    {"erfc", 1, R::Same, nullptr, F1(std::erfc(a)), nullptr, "chlo.erfc", true},
    {"asinh", 1, R::Same, nullptr, F1(std::asinh(a)), nullptr, "chlo.asinh", true},
    {"acosh", 1, R::Same, nullptr, F1(std::acosh(a)), nullptr, "chlo.acosh", true},
    {"atanh", 1, R::Same, nullptr, F1(std::atanh(a)), nullptr, "chlo.atanh", true},
    {"cbrt", 1, R::Same, nullptr, F1(std::cbrt(a)), nullptr, "cbrt", true},
    {"erf_inv", 1, R::Same, nullptr, F1(erfInv(a)), nullptr, "chlo.erf_inv", true},
    {"lgamma", 1, R::Same, nullptr, F1(logGamma(a)), nullptr, "chlo.lgamma", true},
    {"digamma", 1, R::Same, nullptr, F1(digamma(a)), nullptr, "chlo.digamma", true},
    {"zeta", 2, R::Same, nullptr, F2(hurwitzZeta(a, b)), nullptr, "chlo.zeta", true},
    {"polygamma", 2, R::Same, nullptr, F2(polygamma(a, b)), nullptr, "chlo.polygamma", true},
    {"bessel_i0e", 1, R::Same, nullptr, F1(besselI0e(a)), nullptr, nullptr, true},
    {"bessel_i1e", 1, R::Same, nullptr, F1(besselI1e(a)), nullptr, "chlo.bessel_i1e", true},
    {"popcnt", 1, R::Same, nullptr, nullptr, I1(std::popcount(bitsAsUnsigned(d, a))), "popcnt"},
    {"clz", 1, R::Same, nullptr, nullptr, I1(std::countl_zero(bitsAsUnsigned(d, a)) - (64 - bitsOf(d))),
     "count_leading_zeros"},
    {"floor", 1, R::Same, nullptr, F1(std::floor(a)), nullptr, "floor"},
    {"ceil", 1, R::Same, nullptr, F1(std::ceil(a)), nullptr, "ceil"},
    {"round", 1, R::Same, nullptr, F1(std::nearbyint(a)), nullptr,
     "round_nearest_even"}, // the default mode: half to even
    {"trunc", 1, R::Same, nullptr, F1(std::trunc(a)), nullptr},
    {"is_nan", 1, R::Bool, nullptr, F1(std::isnan(a)), nullptr},
    {"is_inf", 1, R::Bool, nullptr, F1(std::isinf(a)), nullptr},
    {"is_finite", 1, R::Bool, nullptr, F1(std::isfinite(a)), nullptr},
    {"fma", 3, R::Same, nullptr, F3(std::fma(a, b, c)), I3(wrap(d, U(a) * U(b) + U(c)))},
    {"random32", 3, R::Same, nullptr, nullptr, I3(random32(U(a), U(b), U(c))), nullptr,
     true}, // of u64: element, seed[0], seed[1]
    {"random64", 3, R::Same, nullptr, nullptr, I3(random64(U(a), U(b), U(c))), nullptr, true},
    {"random_normal", 4, R::First, nullptr, nullptr, nullptr, nullptr,
     true}, // (std, element, seed[0], seed[1]): kernels only
    {"select", 3, R::Select, nullptr, nullptr, nullptr},
    {"real", 1, R::Part, nullptr, nullptr, nullptr}, // these three: kernels only
    {"imag", 1, R::Part, nullptr, nullptr, nullptr},
    {"complex", 2, R::Complex, nullptr, nullptr, nullptr},
    {"cast", 1, R::Cast, nullptr, nullptr, nullptr},
    {"bitcast", 1, R::Cast, nullptr, nullptr, nullptr},
};

#undef F1
#undef F2
#undef F3
#undef I1
#undef I2
#undef I3

} // namespace

std::span<const Intrinsic> intrinsics() { return kIntrinsics; }

const Intrinsic* findIntrinsic(std::string_view name) {
  for (const Intrinsic& i : kIntrinsics)
    if (name == i.name) return &i;
  return nullptr;
}

bool isCostly(std::string_view intrinsic) {
  const Intrinsic* found = findIntrinsic(intrinsic);
  return found && found->costly;
}

ScalarValue reduceIdentity(PendingKind kind, DType d) {
  // The max value: f8e4m3 has no infinity.
  const double maxFinite = d == DType::F8E4M3 ? 448 : std::numeric_limits<double>::infinity();
  switch (kind) {
  case PendingKind::Prod: return {1.0, 1};
  case PendingKind::Max: return {-maxFinite, isInteger(d) ? intMin(d) : 0};
  case PendingKind::Min: return {maxFinite, isInteger(d) ? intMax(d) : 1};
  case PendingKind::All: return {1.0, 1};
  case PendingKind::None:
  case PendingKind::Sum:
  case PendingKind::Avg:
  case PendingKind::Any: break;
  }
  return {0.0, 0};
}

ScalarValue reduceCombine(PendingKind kind, DType d, ScalarValue a, ScalarValue b) {
  switch (kind) {
  case PendingKind::Prod: return {a.f * b.f, isFloat(d) ? 0 : wrap(d, U(a.i) * U(b.i))};
  case PendingKind::Max: return isFloat(d) ? ScalarValue{maximum(a.f, b.f), 0} : less(d, a.i, b.i) ? b : a;
  case PendingKind::Min: return isFloat(d) ? ScalarValue{minimum(a.f, b.f), 0} : less(d, b.i, a.i) ? b : a;
  case PendingKind::Any: return {0, a.i | b.i};
  case PendingKind::All: return {0, a.i & b.i};
  case PendingKind::None:
  case PendingKind::Sum:
  case PendingKind::Avg: break;
  }
  return {a.f + b.f, isFloat(d) ? 0 : wrap(d, U(a.i) + U(b.i))};
}

} // namespace dtc
