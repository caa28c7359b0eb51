// Elementwise functions of two operands, with NumPy broadcasting.
#include "dtc/Ops/OpFunctions.h"
#include "elementwise/ComplexFunctions.h"
#include "record/RecordParts.h"
#include <cmath>

namespace dtc {

namespace {

constexpr Through kBoth{ThroughRow::Linear, 0b11};

std::optional<double> otherLiteral(const OpQuery& q, const Through& t) {
  return literalOperand(q, t.operands == 0b01 ? 1 : 0);
}

// A finite literal may be added to a pending max. A non-literal may be inf while a part is -inf: their sum is
// NaN, although inf plus the max of all parts is not.
bool addWhen(const OpQuery& q, const Through& t) {
  return t.row != ThroughRow::Monotone || otherLiteral(q, t).has_value();
}

// A row for scaling by a literal: Monotone in the operand in `operands` if the *other* one is a literal of
// the right sign.
bool scaleWhen(const OpQuery& q, const Through& t) {
  auto factor = otherLiteral(q, t);
  if (t.row == ThroughRow::Linear) // div: a divisor of 0 makes NaN of parts that are 0
    return factor != 0.0 || isComplex(q.type(0).dtype);
  if (t.row != ThroughRow::Monotone) return true;
  if (factor && isInteger(q.type(0).dtype) && *factor == -1) return false; // INT_MIN / -1 wraps
  return factor && (t.swap ? *factor < 0 : *factor > 0);
}

// pow by an integer literal: even and odd exponents from 0 up pass P(prod), odd ones are monotone on the
// whole line.
bool powWhen(const OpQuery& q, const Through& t) {
  auto exponent = literalOperand(q, 1);
  if (!exponent || *exponent < 0 || *exponent != std::floor(*exponent)) return false;
  return t.row == ThroughRow::Multiplicative || std::fmod(*exponent, 2) == 1;
}

inline constexpr DiagKind kPowTypes{"pow-dtypes",
                                    "'pow' of {0} takes an exponent of {0} or of an integer dtype, not {1}"};
inline constexpr DiagKind kPowNegative{
    "pow-negative", "an integer to the power {0} is not an integer: convert the base to a float"};
bool powVerify(const OpQuery& q) {
  DType base = q.type(0).dtype, exponent = q.type(1).dtype;
  if (isBool(base) || isBool(exponent) || (base != exponent && !isInteger(exponent)))
    return q.diags->fail(kPowTypes, q.loc, dtypeName(base), dtypeName(exponent));
  auto literal = literalOperand(q, 1);
  if (isFloat(partType(base)) || !literal || *literal >= 0) return true;
  return q.diags->fail(kPowNegative, q.loc, static_cast<int64_t>(*literal));
}

bool powGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Module& m = b.module;
  const Expr x(b, m.operand(op, 0)), e(b, m.operand(op, 1));
  const bool integer = isInteger(e.dtype());
  Expr lower = e - 1;
  Expr factor = integer ? convert(e, x.dtype()) : e;
  Expr slope = pow(x, lower) * factor;
  // x^0 is 1 everywhere: no 0 * 0^-1.
  Expr zero = eq(factor, 0);
  out.push_back(dy[0] * select(zero, 0, slope));
  if (integer) {
    out.push_back({});
    return true;
  }
  Expr positive = x > 0;
  Expr logarithm = select(positive, log(x), 0);
  out.push_back(dy[0] * (m.result(op) * logarithm));
  return true;
}

// A literal integer exponent of magnitude at most 32 is unrolled; any other becomes a complex power.
bool powPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& out) {
  Module& m = b.module;
  const OpRecord& record = m.record(op);
  auto combine = [&](const char* name, std::array<ValueId, 2> x, std::array<ValueId, 2> y) {
    const OpRecord& r = (*m.registry)[m.registry->find(name)];
    const std::pair<std::string_view, ValueId> bindings[] = {
        {"a_re", x[0]}, {"a_im", x[1]}, {"b_re", y[0]}, {"b_im", y[1]}};
    std::vector<ValueId> made;
    if (!b.inlineText(r.complexText, bindings, made)) return std::array<ValueId, 2>{};
    return std::array{made[0], made[1]};
  };
  std::array<ValueId, 2> base{planes[0], planes[1]}, exponent{planes[2], planes[3]}, result;
  const TypeId type = m[planes[0]].type;
  OpQuery q = queryOf(m, op, b.diags);
  const auto literal = literalOperand(q, 1);
  const bool integer = isInteger(q.type(1).dtype);
  if (integer && literal && std::fabs(*literal) <= 32) {
    for (auto left = static_cast<int64_t>(std::fabs(*literal)); left != 0; left >>= 1) {
      if (left & 1) result = result[0].valid() ? combine("mul", result, base) : base;
      if (left > 1) base = combine("mul", base, base);
    }
    const std::array one{b.constant(1, type), b.constant(0, type)};
    if (!result[0].valid())
      result = one;
    else if (*literal < 0)
      result = combine("div", one, result);
  } else {
    if (integer) {
      const DType part = m.types[type].dtype;
      const Expr re = convert(Expr(b, exponent[0]), part);
      exponent = {re, b.constant(0, m[re].type)};
    }
    result = combine(record.name, base, exponent);
  }
  out.assign({result[0], result[1]});
  return result[0].valid();
}

struct BinaryRow {
  const char* name;
  const char* summary;
  uint8_t classes;
  const char* scalar;
  const char* grad;
  std::vector<Through> through = {};
  bool (*throughWhen)(const OpQuery&, const Through&) = nullptr;
  const char* samples = nullptr;
  OpChecks checks = {};
  PendingKind combines = PendingKind::None;
};

constexpr const char* kByLiteral = "T[5, 3], 2\nT[5, 3], -3";

// Ties share the cotangent evenly, as in PyTorch.
constexpr const char* kMaxGrad = "g = a > b; l = a < b; h = dy * 0.5; select(g, dy, select(l, 0, h)); "
                                 "select(l, dy, select(g, 0, h))";
constexpr const char* kMinGrad = "g = a < b; l = a > b; h = dy * 0.5; select(g, dy, select(l, 0, h)); "
                                 "select(l, dy, select(g, 0, h))";

const BinaryRow kBinaryRows[] = {
    {"add",
     "a + b",
     kNumbers,
     "a + b",
     "dy; dy",
     {kBoth, {ThroughRow::Affine, 0b11}, monotone(kFloats, false, 0b01), monotone(kFloats, false, 0b10)},
     addWhen,
     "T[5, 3], 2\n2, T[5, 3]",
     {},
     PendingKind::Sum},
    {"sub",
     "a - b",
     kNumbers,
     "a - b",
     "dy; -dy",
     {kBoth, {ThroughRow::Affine, 0b11}, monotone(kFloats, false, 0b01), monotone(kFloats, true, 0b10)},
     addWhen,
     "T[5, 3], 2\n2, T[5, 3]"},
    {"mul",
     "a * b",
     kNumbers,
     "a * b",
     "dy * b; dy * a",
     {{ThroughRow::Bilinear, 0b11},
      {ThroughRow::Multiplicative, 0b11},
      monotone(kFloats, false, 0b01),
      monotone(kFloats, true, 0b01),
      monotone(kFloats, false, 0b10),
      monotone(kFloats, true, 0b10)},
     scaleWhen,
     "T[5, 3], 2\nT[5, 3], -3\n2, T[5, 3]\n-3, T[5, 3]",
     {},
     PendingKind::Prod},
    {"div",
     "a / b; integers truncate",
     kNumbers,
     "a / b",
     "da = dy / b; da; -(da * y)",
     {linear(0b01, kFloats | kComplex),
      monotone(kNumbers, false, 0b01),
      monotone(kNumbers, true, 0b01),
      {ThroughRow::Multiplicative, 0b11, false, ~0u, 0, kFloats}},
     scaleWhen,
     kByLiteral,
     within({Domain::All, Domain::Positive})},
    {"floor_div",
     "a / b, rounded down; b * floor_div + mod is a where b is not 0",
     kNumbers,
     "floor_div(a, b)",
     "none; none",
     {monotone(kInts, false, 0b01),
      monotone(kInts, true, 0b01)}, // for infinite floats the quotient is NaN, as in NumPy
     scaleWhen,
     "T[5, 3], 2\nT[5, 3], -3\n-3, T[5, 3]",
     discontinuous()},
    {"rem",
     "remainder with the dividend's sign",
     kNumbers,
     "rem(a, b)",
     "dy; -(dy * trunc(a / b))",
     {},
     nullptr,
     nullptr,
     discontinuous()},
    {"mod",
     "remainder with the divisor's sign",
     kNumbers,
     "mod(a, b)",
     "dy; -(dy * floor_div(a, b))",
     {},
     nullptr,
     nullptr,
     discontinuous()},
    {"max",
     "maximum; NaN propagates",
     kNumbers,
     "max(a, b)",
     kMaxGrad,
     {monotone(kNumbers, false, 0b11), {ThroughRow::LatticeMax, 0b11}},
     nullptr,
     nullptr,
     exact(),
     PendingKind::Max},
    {"min",
     "minimum; NaN propagates",
     kNumbers,
     "min(a, b)",
     kMinGrad,
     {monotone(kNumbers, false, 0b11), {ThroughRow::LatticeMin, 0b11}},
     nullptr,
     nullptr,
     exact(),
     PendingKind::Min},
    {"atan2",
     "angle of the point (b, a)",
     kFloats,
     "atan2(a, b)",
     "s = dy / (a * a + b * b); s * b; -(s * a)",
     {},
     nullptr,
     nullptr,
     discontinuous()},
    {"and",
     "logical on bool, bitwise on integers",
     kBits,
     "and(a, b)",
     nullptr,
     {monotone(kBools, false, 0b11), {ThroughRow::LatticeAll, 0b11}},
     nullptr,
     nullptr,
     {},
     PendingKind::All},
    {"or",
     "logical on bool, bitwise on integers",
     kBits,
     "or(a, b)",
     nullptr,
     {monotone(kBools, false, 0b11), {ThroughRow::LatticeAny, 0b11}},
     nullptr,
     nullptr,
     {},
     PendingKind::Any},
    {"xor", "logical on bool, bitwise on integers", kBits, "xor(a, b)", nullptr},
    {"shl", "a * 2^b; 0 if b is at least the width", kInts, "shl(a, b)", nullptr, {linear(0b01)}},
    {"shr",
     "a / 2^b rounded down; 0, or -1 for negative a, if b is at least the width",
     kInts,
     "shr(a, b)",
     nullptr,
     {monotone(kInts, false, 0b01)}},
};

struct Comparison {
  const char* name;
  const char* summary;
  const char* scalar;
  uint8_t classes;
  std::vector<Through> through = {};
};

// x < R: the max is below iff all parts are, including NaN; the min is below iff any part is, which NaN
// breaks.
constexpr Through compare(uint32_t operand, bool swap, uint16_t kinds, uint8_t classes) {
  return {ThroughRow::Compare, operand, swap, ~0u, kinds, classes};
}
std::vector<Through> below(uint32_t low, uint32_t high) {
  uint16_t max = kindBit(PendingKind::Max), min = kindBit(PendingKind::Min);
  return {compare(low, false, max, kNumbers), compare(low, false, min, kInts),
          compare(high, true, min, kNumbers), compare(high, true, max, kInts)};
}

const Comparison kComparisons[] = {
    {"eq", "a == b", "a == b", kAnyDType},
    {"ne", "a != b", "a != b", kAnyDType},
    {"lt", "a < b", "a < b", kNumbers, below(0b01, 0b10)},
    {"le", "a <= b", "a <= b", kNumbers, below(0b01, 0b10)},
    {"gt", "a > b", "a > b", kNumbers, below(0b10, 0b01)},
    {"ge", "a >= b", "a >= b", kNumbers, below(0b10, 0b01)},
};

OpRecord binary(const char* name, const char* summary, const char* scalar, std::vector<Through> through) {
  OpRecord r{.name = name, .family = "binary", .summary = summary};
  r.operands = "a, b";
  r.ruleText = "pointwise";
  r.through = std::move(through);
  r.scalar = scalar;
  addComplexForm(r);
  return r;
}

} // namespace

void addBinaryOps(OpRegistry& ops) {
  for (const BinaryRow& row : kBinaryRows) {
    OpRecord& r = ops.add(binary(row.name, row.summary, row.scalar, row.through));
    r.operandClasses = row.classes;
    r.throughWhen = row.throughWhen;
    r.grad = row.grad;
    r.gradNone = row.grad == nullptr;
    r.samples = row.samples;
    r.checks = row.checks;
    r.combines = row.combines;
  }
  OpRecord& pow = ops.add(binary("pow", "a to the power b; integer bases are exact and wrap", "pow(a, b)",
                                 {{ThroughRow::Multiplicative, 0b01}, monotone(kFloats, false, 0b01)}));
  pow.operandClasses = kNumbers;
  pow.sameDType = false;
  pow.verify = powVerify;
  pow.literal = OpRecord::LiteralType::Exponent;
  pow.checks = within(
      {Domain::Positive, Domain::Small},
      {{"P(prod), R -> P(prod)", "only for non-negative exponents, which the dtype does not guarantee"}});
  pow.throughWhen = powWhen;
  pow.gradFn = powGrad;
  pow.complexFn = powPlanes;
  pow.samples = "T[5, 3], 2\nT[5, 3], 3\nT[5, 3], i32[5, 3] in 0..4\nT[5, 3], i32[3] in 0..4";
  for (const Comparison& row : kComparisons) {
    OpRecord& r = ops.add(binary(row.name, row.summary, row.scalar, row.through));
    r.resultType = OpRecord::ResultType::Bool;
    r.checks = discontinuous();
    r.operandClasses = row.classes;
    r.gradNone = true;
  }
}

} // namespace dtc
