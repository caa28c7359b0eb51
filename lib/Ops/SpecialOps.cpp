// Functions of mathematical physics, and of the bits of numbers.
#include "ComplexFunctions.h"
#include "RecordParts.h"
#include "dtc/IR/Builder.h"
#include "dtc/Support/Tensor.h"
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

struct Row {
  const char* name;
  const char* summary;
  const char* operands;
  const char* scalar;
  const char* grad;
  std::vector<Through> through = {};
  const char* samples = nullptr;
  double flops = 20;
};

constexpr Through kRoots{ThroughRow::Multiplicative};

const Row kRows[] = {
    {"asinh",
     "inverse hyperbolic sine",
     "x",
     "asinh(a)",
     "%s = mul %x, %x\n%t = add %s, 1.0\n%r = rsqrt %t\n%dx = mul %dy, %r\nyield %dx",
     {monotone()}},
    {"acosh", "inverse hyperbolic cosine; NaN below 1", "x", "acosh(a)",
     "%s = sub %x, 1.0\n%u = add %x, 1.0\n%t = mul %s, %u\n%r = rsqrt %t\n%dx = mul %dy, %r\nyield %dx"},
    {"atanh", "inverse hyperbolic tangent; NaN outside of [-1, 1]", "x", "atanh(a)",
     "%s = mul %x, %x\n%t = sub 1.0, %s\n%dx = div %dy, %t\nyield %dx"},
    {"cbrt",
     "cube root",
     "x",
     "cbrt(a)",
     "%s = mul %y, %y\n%t = mul %s, 3.0\n%dx = div %dy, %t\nyield %dx",
     {monotone(), kRoots}},
    {"erf_inv", "where the error function is x; NaN outside of [-1, 1]", "x", "erf_inv(a)",
     "%s = mul %y, %y\n%e = exp %s\n%t = mul %e, 0.886226925452758\n%dx = mul %dy, %t\nyield %dx"},
    {"lgamma", "logarithm of |Γ(x)|; infinite at 0 and at negative whole numbers", "x", "lgamma(a)",
     "%t = digamma %x\n%dx = mul %dy, %t\nyield %dx"},
    {"digamma", "derivative of lgamma; NaN at 0 and at negative whole numbers", "x", "digamma(a)",
     "%t = polygamma 1.0, %x\n%dx = mul %dy, %t\nyield %dx"},
    {"bessel_i0e", "exp(-|x|) I0(x), the modified Bessel function of order 0", "x", "bessel_i0e(a)",
     "%i = bessel_i1e %x\n%s = sign %x\n%t = mul %s, %y\n%u = sub %i, %t\n%dx = mul %dy, %u\nyield %dx"},
    // At 0 the slope is 1/2, where y / x has no value.
    {"bessel_i1e", "exp(-|x|) I1(x), the modified Bessel function of order 1", "x", "bessel_i1e(a)",
     "%i = bessel_i0e %x\n%s = sign %x\n%r = mul %s, %y\n%q = div %y, %x\n%z = eq %x, 0.0\n"
     "%f = select %z, 0.5, %q\n%t = sub %i, %r\n%u = sub %t, %f\n%dx = mul %dy, %u\nyield %dx"},
    {"zeta",
     "Hurwitz's zeta function: the sum of (q + i)^-s over i = 0, 1, …; NaN for s < 1",
     "s, q",
     "zeta(a, b)",
     "%t = add %s, 1.0\n%z = zeta %t, %q\n%n = neg %s\n%u = mul %z, %n\n%dq = mul %dy, %u\nyield unknown, "
     "%dq",
     {},
     "2.5, T[5, 3]\n3.0, T[5, 3]",
     200},
    {"polygamma",
     "the n-th derivative of digamma; NaN where n is no whole number from 0 up",
     "n, x",
     "polygamma(a, b)",
     "%t = add %n, 1.0\n%p = polygamma %t, %x\n%dx = mul %dy, %p\nyield unknown, %dx",
     {},
     "0.0, T[5, 3]\n2.0, T[5, 3]",
     200},
};

// --- bits of integers ---

void addBitCounts(OpRegistry& ops) {
  static constexpr std::array<const char*, 3> rows[] = {{"popcnt", "how many bits are 1", "popcnt(a)"},
                                                        {"clz", "how many bits above the first 1", "clz(a)"}};
  for (auto& [name, summary, scalar] : rows) {
    OpRecord r{.name = name, .family = "special", .summary = summary};
    r.ruleText = "pointwise";
    r.operandClasses = kInts;
    r.throughNone = true;
    r.scalar = scalar;
    r.gradNone = true;
    r.flopsPerPoint = 8;
    ops.add(std::move(r));
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

// What the two decompositions below write: arithmetic on the bits of x as an unsigned integer.
struct BitBuilder {
  Builder& b;
  FloatBits f;
  ValueId bits(ValueId x) const {
    return b.value("bitcast", {x}, {{"dtype", b.word(dtypeName(f.asInteger))}});
  }
  ValueId number(int64_t v) const {
    return b.module.makeLiteral(b.module.attrs.integer(v), f.asInteger, b.loc);
  }
  ValueId op(const char* name, ValueId x, int64_t by) const { return b.value(name, {x, number(by)}); }
  // Without the sign: shifted out and back in.
  ValueId size(ValueId x) const { return op("shr", op("shl", x, 1), 1); }
  ValueId sign(ValueId x) const { return op("shl", op("shr", x, f.width - 1), f.width - 1); }
};

// The neighbour of x on the way to y: its bits plus or minus 1.
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
  auto place = [&](const Tensor& t, int64_t i) { // of element i of the result
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
    out[0]->setFloat(
        i, nextAfter(q.type(0).dtype, in[0]->getFloat(place(*in[0], i)), in[1]->getFloat(place(*in[1], i))));
  return true;
}
bool nextAfterDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const ValueId x = m.operand(op, 0), y = m.operand(op, 1);
  const DType dtype = m.typeOf(x).dtype;
  const BitBuilder bits{b, floatBits(dtype)};
  const ValueId ux = bits.bits(x), uy = bits.bits(y);
  const ValueId larger = b.value("gt", {bits.size(ux), bits.size(uy)});
  const ValueId other = b.value("ne", {bits.sign(ux), bits.sign(uy)});
  const ValueId step =
      b.value("select", {b.value("or", {larger, other}), bits.op("sub", ux, 1), bits.op("add", ux, 1)});
  const ValueId least = bits.op("or", bits.sign(uy), 1);
  const ValueId zero = b.value("eq", {x, b.literal(0, dtype)});
  const ValueId next =
      b.value("bitcast", {b.value("select", {zero, least, step})}, {{"dtype", b.word(dtypeName(dtype))}});
  const ValueId nan = b.value("or", {b.value("is_nan", {x}), b.value("is_nan", {y})});
  const ValueId stays = b.value("select", {b.value("eq", {x, y}), y, next});
  const double none = std::numeric_limits<double>::quiet_NaN();
  results.push_back(b.value("select", {nan, b.literal(none, dtype), stays}));
  return true;
}

inline constexpr DiagKind kPrecision{
    "attribute-value",
    "'reduce_precision' takes exponent_bits from 1 and mantissa_bits from 0, not {0} and {1}"};
bool precisionVerify(const OpQuery& q) {
  const int64_t e = q.intAttr("exponent_bits"), m = q.intAttr("mantissa_bits");
  if (e >= 1 && m >= 0) return true;
  q.diags->error(kPrecision, q.loc, e, m);
  return false;
}

// A float format as reduce_precision sees it: its exponents, those of the narrower one, and how many bits go.
struct Narrowing {
  FloatBits f;
  int64_t drop = 0; // mantissa bits
  bool narrowsExponent = false;
  int64_t most = 0, least = 0; // biased exponents that still are numbers: least < e <= most
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
  n.most = bias + reduced;
  n.least = bias - reduced;
  return n;
}
// One-byte floats differ in what they keep of infinity: they are rounded as f32.
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
    if (n.drop > 0 && std::isfinite(y) && y != 0) { // half to even, at the last place that stays
      const int exponent = std::max(std::ilogb(y), std::ilogb(valueOf(d, uint64_t(1) << n.f.mantissa)));
      const double unit = std::ldexp(1.0, exponent - n.f.mantissa + static_cast<int>(n.drop));
      y = roundToFloat(d, std::nearbyint(y / unit) * unit);
    }
    if (n.narrowsExponent) {
      const auto exponent = static_cast<int64_t>(
          (bitsOf(d, y) << 1 & ((uint64_t(2) << (n.f.width - 1)) - 1)) >> (n.f.mantissa + 1));
      if (exponent > n.most) y = std::copysign(std::numeric_limits<double>::infinity(), y);
      if (exponent <= n.least) y = std::copysign(0.0, y);
    }
    out[0]->setFloat(i, y);
  }
  return true;
}
// Without mantissa bits NaN becomes infinite: above all, as it was. A format that is not narrower changes nothing.
bool precisionWhen(const OpQuery& q, const Through& t) {
  const Narrowing n =
      narrowing(roundedIn(q.type(0).dtype), q.intAttr("exponent_bits"), q.intAttr("mantissa_bits"));
  if (t.row == ThroughRow::Moving) return n.drop == 0 && !n.narrowsExponent && n.keepsNaN;
  return n.keepsNaN || t.kinds != 0;
}

// As XLA does it: half of the last bit that stays, less 1 where that bit is 0, is added; then it and all below are dropped.
bool precisionDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  ValueId x = m.operand(op, 0);
  const DType own = m.typeOf(x).dtype, dtype = roundedIn(own);
  if (own != dtype) x = b.value("convert", {x}, {{"dtype", b.word(dtypeName(dtype))}});
  const Narrowing n = narrowing(dtype, q.intAttr("exponent_bits"), q.intAttr("mantissa_bits"));
  const BitBuilder bits{b, n.f};
  ValueId u = bits.bits(x);
  const ValueId sign = bits.sign(u);
  if (n.drop > 0) {
    const ValueId last = bits.op("and", bits.op("shr", u, n.drop), 1);
    const ValueId bias = bits.op("add", last, (int64_t(1) << (n.drop - 1)) - 1);
    u = bits.op("shl", bits.op("shr", b.value("add", {u, bias}), n.drop), n.drop);
  }
  // All bits of the exponent, none of the mantissa: infinity.
  const int64_t all = ((int64_t(1) << (n.f.width - 1 - n.f.mantissa)) - 1) << n.f.mantissa;
  const ValueId infinity = b.value("or", {sign, bits.number(all)});
  if (n.narrowsExponent) {
    const ValueId exponent = bits.op("shr", bits.size(u), n.f.mantissa);
    u = b.value("select", {bits.op("gt", exponent, n.most), infinity, u});
    u = b.value("select", {bits.op("le", exponent, n.least), sign, u});
  }
  const ValueId nan = b.value("is_nan", {x});
  if (!n.keepsNaN) u = b.value("select", {nan, bits.number(all), u});
  ValueId y = b.value("bitcast", {u}, {{"dtype", b.word(dtypeName(dtype))}});
  if (n.keepsNaN) y = b.value("select", {nan, x, y});
  if (own != dtype) y = b.value("convert", {y}, {{"dtype", b.word(dtypeName(own))}});
  results.push_back(y);
  return true;
}

void addFloatBits(OpRegistry& ops) {
  OpRecord next{.name = "next_after",
                .family = "special",
                .summary = "the neighbour of x on the way to y, in x's dtype"};
  next.operands = "x, y";
  next.results = "z";
  next.ruleText = "pointwise";
  next.operandClasses = kFloats;
  next.through = {monotone(kFloats, false, 0b01), monotone(kFloats, false, 0b10)};
  next.eval = nextAfterEval;
  next.decompose = nextAfterDecompose;
  next.lowering = Lowering::Decompose;
  next.gradNone = true;
  next.flopsPerPoint = 8;
  ops.add(std::move(next));

  OpRecord precision{
      .name = "reduce_precision",
      .family = "special",
      .summary =
          "x rounded to a format of fewer bits, half to even; too large becomes infinite, too small 0"};
  precision.attrs = {{"exponent_bits", AttrType::Int, nullptr, "of the format"},
                     {"mantissa_bits", AttrType::Int, nullptr, "of the format, without the leading 1"}};
  precision.ruleText = "pointwise";
  precision.operandClasses = kFloats;
  precision.through = {
      monotone(), {ThroughRow::Monotone, 1, false, ~0u, kindBit(PendingKind::Max)}, moving()};
  precision.throughWhen = precisionWhen;
  precision.verify = precisionVerify;
  precision.eval = precisionEval;
  precision.decompose = precisionDecompose;
  precision.lowering = Lowering::Decompose;
  precision.gradFn = [](Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
    const OpQuery q = queryOf(b.module, op, b.diags); // the cotangent travels in the same format
    dx.push_back(b.value("reduce_precision", {dy[0]},
                         {{"exponent_bits", b.integer(q.intAttr("exponent_bits"))},
                          {"mantissa_bits", b.integer(q.intAttr("mantissa_bits"))}}));
    return true;
  };
  precision.flopsPerPoint = 8;
  precision.samples =
      "T[5, 3] {exponent_bits = 5, mantissa_bits = 10}\nT[5, 3] {exponent_bits = 8, mantissa_bits = 7}\n"
      "T[5, 3] {exponent_bits = 11, mantissa_bits = 52}\nT[5, 3] {exponent_bits = 4, mantissa_bits = 0}";
  ops.add(std::move(precision));
}

} // namespace

void addSpecialOps(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord r{.name = row.name, .family = "special", .summary = row.summary};
    r.operands = row.operands;
    r.ruleText = "pointwise";
    r.operandClasses = kFloats;
    r.through = row.through;
    r.throughNone = row.through.empty();
    addComplexForm(r);
    r.scalar = row.scalar;
    r.grad = row.grad;
    r.samples = row.samples;
    r.flopsPerPoint = row.flops;
    ops.add(std::move(r));
  }
  addBitCounts(ops);
  addFloatBits(ops);
}

} // namespace dtc
