// Special functions, and functions of the bits of numbers.
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Tensor.h"
#include "elementwise/ComplexFunctions.h"
#include "record/RecordParts.h"
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

struct SpecialRow {
  const char* name;
  const char* summary;
  const char* operands;
  const char* scalar;
  const char* grad;
  std::vector<Through> through = {};
  OpChecks checks = {};
  const char* samples = nullptr;
  double flops = 20;
};

constexpr Through kRoots{ThroughRow::Multiplicative};

const SpecialRow kSpecialRows[] = {
    {"asinh", "inverse hyperbolic sine", "x", "asinh(a)", "dy * rsqrt(x * x + 1)", {monotone()}},
    {"acosh",
     "inverse hyperbolic cosine; NaN below 1",
     "x",
     "acosh(a)",
     "dy * rsqrt((x - 1) * (x + 1))",
     {},
     within({Domain::AboveOne}, {kMinByNan})},
    {"atanh",
     "inverse hyperbolic tangent; NaN outside of [-1, 1]",
     "x",
     "atanh(a)",
     "dy / (1 - x * x)",
     {},
     within({Domain::Unit})},
    {"cbrt", "cube root", "x", "cbrt(a)", "dy / (y * y * 3)", {monotone(), kRoots}},
    {"erf_inv",
     "inverse error function; NaN outside of [-1, 1]",
     "x",
     "erf_inv(a)",
     "dy * (exp(y * y) * 0.886226925452758)",
     {},
     within({Domain::Unit})},
    {"lgamma",
     "logarithm of |Γ(x)|; infinite at 0 and at negative integers",
     "x",
     "lgamma(a)",
     "dy * digamma(x)",
     {},
     discontinuous()},
    {"digamma",
     "derivative of lgamma; NaN at 0 and at negative integers",
     "x",
     "digamma(a)",
     "dy * polygamma(1, x)",
     {},
     discontinuous()},
    {"bessel_i0e", "exp(-|x|) I0(x), the modified Bessel function of order 0", "x", "bessel_i0e(a)",
     "dy * (bessel_i1e(x) - sign(x) * y)"},
    // At 0 the slope is 1/2, where y / x is undefined.
    {"bessel_i1e", "exp(-|x|) I1(x), the modified Bessel function of order 1", "x", "bessel_i1e(a)",
     "i = bessel_i0e(x); s = sign(x); r = s * y; q = y / x; z = x == 0; "
     "f = select(z, 0.5, q); dy * (i - r - f)"},
    {"zeta",
     "Hurwitz zeta function: the sum of (q + i)^-s over i = 0, 1, …; NaN for s < 1",
     "s, q",
     "zeta(a, b)",
     "unknown; dy * (zeta(s + 1, q) * -s)",
     {},
     discontinuous({{"P(min) -> P(max)", kMinByNan.reason}}),
     "2.5, T[5, 3]\n3.0, T[5, 3]",
     200},
    {"polygamma",
     "the n-th derivative of digamma; NaN unless n is a nonnegative integer",
     "n, x",
     "polygamma(a, b)",
     "unknown; dy * polygamma(n + 1, x)",
     {},
     discontinuous(),
     "0.0, T[5, 3]\n2.0, T[5, 3]",
     200},
};

// --- bits of integers ---

void addBitCounts(OpRegistry& ops) {
  static constexpr std::array<const char*, 3> rows[] = {{"popcnt", "number of bits that are 1", "popcnt(a)"},
                                                        {"clz", "number of leading zero bits", "clz(a)"}};
  for (auto& [name, summary, scalar] : rows) {
    OpRecord& r = ops.add({.name = name, .family = "special", .summary = summary});
    r.ruleText = "pointwise";
    r.operandClasses = kInts;
    r.scalar = scalar;
    r.gradNone = true;
    r.flopsPerPoint = 8;
  }
}

// --- bits of floats ---

struct FloatBits {
  int width, mantissa;
  DType asInteger;
};
FloatBits floatBits(DType d) {
  const int width = 8 * dtypeBytes(d);
  const DType u = width == 8 ? DType::U8 : width == 16 ? DType::U16 : width == 32 ? DType::U32 : DType::U64;
  return {width, mantissaBits(d) - 1, u};
}
uint64_t bitsOf(DType d, double v) { // of a value of d
  const FloatBits f = floatBits(d);
  Tensor t(d, {});
  t.setFloat(0, v);
  uint64_t bits = 0;
  for (int i = 0; i < f.width / 8; ++i)
    bits |= uint64_t(std::to_integer<uint8_t>(t.bytes()[static_cast<size_t>(i)])) << (8 * i);
  return bits;
}
double valueOf(DType d, uint64_t bits) {
  Tensor t(d, {});
  for (size_t i = 0; i < t.bytes().size(); ++i) t.bytes()[i] = std::byte(bits >> (8 * i) & 0xff);
  return t.getFloat(0);
}

// Shared by the two decompositions below: arithmetic on the bits of x as an unsigned integer.
struct BitBuilder {
  FloatBits f;
  Expr bits(Expr x) const { return bitcast(x, f.asInteger); }
  // Without the sign, which is shifted out and back in.
  Expr size(Expr x) const { return shr(shl(x, 1), 1); }
  Expr sign(Expr x) const { return shl(shr(x, f.width - 1), f.width - 1); }
};

// The next float after x towards y: its bits plus or minus 1.
double nextAfter(DType d, double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y) return y;
  const uint64_t top = uint64_t(1) << (floatBits(d).width - 1);
  if (x == 0) return valueOf(d, (bitsOf(d, y) & top) | 1);
  const bool away = (x < y) == (x > 0);
  return valueOf(d, away ? bitsOf(d, x) + 1 : bitsOf(d, x) - 1);
}
bool nextAfterEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const std::vector<int64_t>& shape = out[0]->shape();
  auto elementOf = [&](const Tensor& t, int64_t i) { // of element i of the result
    int64_t at = 0, stride = 1;
    for (size_t d = shape.size(), k = t.rank(); d-- > 0;) {
      const int64_t index = i % shape[d];
      i /= shape[d];
      if (k == 0) continue;
      --k;
      at += t.shape()[k] == 1 ? 0 : index * stride;
      stride *= t.shape()[k];
    }
    return at;
  };
  for (int64_t i = 0; i < out[0]->numElements(); ++i)
    out[0]->setFloat(i, nextAfter(q.type(0).dtype, in[0]->getFloat(elementOf(*in[0], i)),
                                  in[1]->getFloat(elementOf(*in[1], i))));
  return true;
}
bool nextAfterDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const Expr x(b, m.operand(op, 0)), y(b, m.operand(op, 1));
  const DType dtype = x.dtype();
  const BitBuilder bits{floatBits(dtype)};
  const Expr ux = bits.bits(x), uy = bits.bits(y);
  const Expr size = bits.size(ux), larger = size > bits.size(uy);
  const Expr signOfX = bits.sign(ux), other = ne(signOfX, bits.sign(uy));
  const Expr down = larger | other, less = ux - 1;
  const Expr step = select(down, less, ux + 1);
  const Expr smallest = bits.sign(uy) | 1;
  const Expr zero = eq(x, 0);
  const Expr next = bitcast(select(zero, smallest, step), dtype);
  const Expr xIsNan = is_nan(x), nan = xIsNan | is_nan(y);
  const Expr stays = select(eq(x, y), y, next);
  const double none = std::numeric_limits<double>::quiet_NaN();
  results.push_back(select(nan, none, stays));
  return true;
}

inline constexpr DiagKind kPrecision{
    "attribute-value",
    "'reduce_precision' takes exponent_bits from 1 and mantissa_bits from 0, not {0} and {1}"};
bool precisionVerify(const OpQuery& q) {
  const int64_t e = q.intAttr("exponent_bits"), m = q.intAttr("mantissa_bits");
  if (e >= 1 && m >= 0) return true;
  return q.diags->fail(kPrecision, q.loc, e, m);
}

// A float format as reduce_precision sees it: its exponents, those of the narrower one, and the number of
// dropped bits.
struct Narrowing {
  FloatBits f;
  int64_t drop = 0; // mantissa bits
  bool narrowsExponent = false;
  int64_t maxExponent = 0,
          minExponent = 0; // biased exponents of normal numbers: minExponent < e <= maxExponent
  bool keepsNaN = true;
};
Narrowing narrowing(DType d, int64_t exponentBits, int64_t mantissa) {
  Narrowing n{floatBits(d)};
  const int64_t own = n.f.width - 1 - n.f.mantissa;
  n.drop = std::max<int64_t>(n.f.mantissa - mantissa, 0);
  n.narrowsExponent = exponentBits < own;
  n.keepsNaN = mantissa > 0;
  if (!n.narrowsExponent) return n;
  const int64_t bias = (int64_t(1) << (own - 1)) - 1, reduced = (int64_t(1) << (exponentBits - 1)) - 1;
  n.maxExponent = bias + reduced;
  n.minExponent = bias - reduced;
  return n;
}
// One-byte floats differ in their infinities: they are rounded as f32.
DType roundedIn(DType d) { return dtypeBytes(d) == 1 ? DType::F32 : d; }

bool precisionEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const DType d = roundedIn(q.type(0).dtype);
  const Narrowing n = narrowing(d, q.intAttr("exponent_bits"), q.intAttr("mantissa_bits"));
  for (int64_t i = 0; i < out[0]->numElements(); ++i) {
    const double x = in[0]->getFloat(i);
    if (std::isnan(x)) {
      out[0]->setFloat(i, n.keepsNaN ? x : std::numeric_limits<double>::infinity());
      continue;
    }
    double y = roundToFloat(d, x);
    if (n.drop > 0 && std::isfinite(y) && y != 0) { // half to even, at the last remaining bit
      const int exponent = std::max(std::ilogb(y), std::ilogb(valueOf(d, uint64_t(1) << n.f.mantissa)));
      const double unit = std::ldexp(1.0, exponent - n.f.mantissa + static_cast<int>(n.drop));
      y = roundToFloat(d, std::nearbyint(y / unit) * unit);
    }
    if (n.narrowsExponent) {
      const auto exponent = static_cast<int64_t>(
          (bitsOf(d, y) << 1 & ((uint64_t(2) << (n.f.width - 1)) - 1)) >> (n.f.mantissa + 1));
      if (exponent > n.maxExponent) y = std::copysign(std::numeric_limits<double>::infinity(), y);
      if (exponent <= n.minExponent) y = std::copysign(0.0, y);
    }
    out[0]->setFloat(i, y);
  }
  return true;
}
// Without mantissa bits NaN becomes infinity; it is restored. A format that is not narrower changes nothing.
bool precisionWhen(const OpQuery& q, const Through& t) {
  const Narrowing n =
      narrowing(roundedIn(q.type(0).dtype), q.intAttr("exponent_bits"), q.intAttr("mantissa_bits"));
  if (t.row == ThroughRow::Moving) return n.drop == 0 && !n.narrowsExponent && n.keepsNaN;
  return n.keepsNaN || t.kinds != 0;
}

// As in XLA: adds half of the last remaining bit, minus 1 if that bit is 0, and then truncates.
bool precisionDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  Expr x(b, m.operand(op, 0));
  const DType own = x.dtype(), dtype = roundedIn(own);
  x = x.as(dtype);
  const Narrowing n = narrowing(dtype, q.intAttr("exponent_bits"), q.intAttr("mantissa_bits"));
  const BitBuilder bits{n.f};
  Expr u = bits.bits(x);
  const Expr sign = bits.sign(u);
  if (n.drop > 0) {
    const Expr last = shr(u, n.drop) & 1;
    const Expr bias = last + ((int64_t(1) << (n.drop - 1)) - 1);
    u = shl(shr(u + bias, n.drop), n.drop);
  }
  // All bits of the exponent, none of the mantissa: infinity.
  const int64_t all = ((int64_t(1) << (n.f.width - 1 - n.f.mantissa)) - 1) << n.f.mantissa;
  const Expr infinity = sign | all;
  if (n.narrowsExponent) {
    const Expr exponent = shr(bits.size(u), n.f.mantissa);
    u = select(exponent > n.maxExponent, infinity, u);
    u = select(exponent <= n.minExponent, sign, u);
  }
  const Expr nan = is_nan(x);
  if (!n.keepsNaN) u = select(nan, all, u);
  Expr y = bitcast(u, dtype);
  if (n.keepsNaN) y = select(nan, x, y);
  results.push_back(y.as(own));
  return true;
}

void addFloatBits(OpRegistry& ops) {
  OpRecord& next = ops.add({.name = "next_after",
                            .family = "special",
                            .summary = "the next float after x towards y, in x's dtype"});
  next.operands = "x, y";
  next.results = "z";
  next.ruleText = "pointwise";
  next.operandClasses = kFloats;
  next.checks = discontinuous();
  constexpr const char* neighbors = "neighbors are equal within the tolerance";
  next.checks.coincidences = {{"R, P(avg) -> P(avg)", neighbors},
                              {"R, P(avg) -> P(max)", neighbors},
                              {"R, P(avg) -> P(min)", neighbors},
                              {"R, P(max) -> P(avg)", neighbors},
                              {"R, P(min) -> P(avg)", neighbors}};
  next.through = {monotone(kFloats, false, 0b01), monotone(kFloats, false, 0b10)};
  next.eval = nextAfterEval;
  next.decompose = nextAfterDecompose;
  next.lowering = Lowering::Decompose;
  next.gradNone = true;
  next.flopsPerPoint = 8;

  OpRecord& precision = ops.add(
      {.name = "reduce_precision",
       .family = "special",
       .summary =
           "rounds x to a format with fewer bits, half to even; overflow gives infinity, underflow 0"});
  precision.attrs = {{"exponent_bits", AttrType::Int, nullptr, "of the format"},
                     {"mantissa_bits", AttrType::Int, nullptr, "of the format, without the leading 1"}};
  precision.ruleText = "pointwise";
  precision.operandClasses = kFloats;
  precision.checks = discontinuous();
  precision.through = {
      monotone(), {ThroughRow::Monotone, 1, false, ~0u, kindBit(PendingKind::Max)}, moving()};
  precision.throughWhen = precisionWhen;
  precision.verify = precisionVerify;
  precision.eval = precisionEval;
  precision.decompose = precisionDecompose;
  precision.lowering = Lowering::Decompose;
  precision.gradFn = [](Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
    const OpQuery q = queryOf(b.module, op, b.diags); // the cotangent is rounded to the same format
    dx.push_back(reduce_precision(Expr(b, dy[0]), {.exponent_bits = q.intAttr("exponent_bits"),
                                                   .mantissa_bits = q.intAttr("mantissa_bits")}));
    return true;
  };
  precision.flopsPerPoint = 8;
  precision.samples =
      "T[5, 3] {exponent_bits = 5, mantissa_bits = 10}\nT[5, 3] {exponent_bits = 8, mantissa_bits = 7}\n"
      "T[5, 3] {exponent_bits = 11, mantissa_bits = 52}\nT[5, 3] {exponent_bits = 4, mantissa_bits = 0}";
}

} // namespace

void addSpecialOps(OpRegistry& ops) {
  for (const SpecialRow& row : kSpecialRows) {
    OpRecord& r = ops.add({.name = row.name, .family = "special", .summary = row.summary});
    r.operands = row.operands;
    r.ruleText = "pointwise";
    r.operandClasses = kFloats;
    r.through = row.through;
    addComplexForm(r);
    r.scalar = row.scalar;
    r.grad = row.grad;
    r.samples = row.samples;
    r.flopsPerPoint = row.flops;
    r.checks = row.checks;
  }
  addBitCounts(ops);
  addFloatBits(ops);
}

} // namespace dtc
