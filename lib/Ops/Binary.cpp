// Functions of two elements, broadcast as NumPy does.
#include "ComplexFunctions.h"
#include "RecordParts.h"
#include "dtc/IR/Builder.h"
#include <cmath>

namespace dtc {

namespace {

constexpr Through kBoth{ThroughRow::Linear, 0b11};

std::optional<double> otherLiteral(const OpQuery& q, const Through& t) {
  return literalOperand(q, t.operands == 0b01 ? 1 : 0);
}

// A finite literal may be added to a maximum that is pending. What is no literal may be inf, and a part -inf: their sum is NaN,
// where the sum with the maximum of all parts is not.
bool addWhen(const OpQuery& q, const Through& t) {
  return t.row != ThroughRow::Monotone || otherLiteral(q, t).has_value();
}

// A row scaled by a literal: Monotone of the operand in `operands` where the *other* one is a literal of the right sign.
bool scaleWhen(const OpQuery& q, const Through& t) {
  auto factor = otherLiteral(q, t);
  if (t.row == ThroughRow::Linear) // div: of parts that are 0 a divisor of 0 makes NaN
    return factor != 0.0 || isComplex(q.type(0).dtype);
  if (t.row != ThroughRow::Monotone) return true;
  if (factor && isInteger(q.type(0).dtype) && *factor == -1) return false; // INT_MIN / -1 wraps
  return factor && (t.swap ? *factor < 0 : *factor > 0);
}

// pow by an integer literal: even and odd exponents from 0 up pass P(prod), odd ones are monotone on the whole line.
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
  if (isBool(base) || isBool(exponent) || (base != exponent && !isInteger(exponent))) {
    q.diags->error(kPowTypes, q.loc, dtypeName(base), dtypeName(exponent));
    return false;
  }
  auto literal = literalOperand(q, 1);
  if (isFloat(partType(base)) || !literal || *literal >= 0) return true;
  q.diags->error(kPowNegative, q.loc, static_cast<int64_t>(*literal));
  return false;
}

bool powGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Module& m = b.module;
  ValueId x = m.operand(op, 0), e = m.operand(op, 1);
  DType base = m.typeOf(x).dtype;
  bool integer = isInteger(m.typeOf(e).dtype);
  ValueId lower = b.value("sub", {e, b.literal(1, m.typeOf(e).dtype)});
  ValueId factor = integer ? b.value("convert", {e}, {{"dtype", b.word(dtypeName(base))}}) : e;
  ValueId slope = b.value("mul", {b.value("pow", {x, lower}), factor});
  // x^0 is 1 everywhere: no 0 * 0^-1.
  ValueId zero = b.value("eq", {factor, b.literal(0, base)});
  out.push_back(b.value("mul", {dy[0], b.value("select", {zero, b.literal(0, base), slope})}));
  if (integer) {
    out.push_back({});
    return true;
  }
  ValueId positive = b.value("gt", {x, b.literal(0, base)});
  ValueId log = b.value("select", {positive, b.value("log", {x}), b.literal(0, base)});
  out.push_back(b.value("mul", {dy[0], b.value("mul", {m.result(op), log})}));
  return true;
}

// A literal integer exponent of at most 32 in size is unrolled, any other becomes a complex one.
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
      const ValueId re = b.value("convert", {exponent[0]}, {{"dtype", b.word(dtypeName(part))}});
      exponent = {re, b.constant(0, m[re].type)};
    }
    result = combine(record.name, base, exponent);
  }
  out.assign({result[0], result[1]});
  return result[0].valid();
}

struct Row {
  const char* name;
  const char* summary;
  uint8_t classes;
  const char* scalar;
  const char* grad;
  std::vector<Through> through = {};
  bool (*throughWhen)(const OpQuery&, const Through&) = nullptr;
  const char* samples = nullptr;
};

constexpr const char* kByLiteral = "T[5, 3], 2\nT[5, 3], -3";

// Ties share the cotangent evenly, as in torch.
constexpr const char* kMaxGrad =
    "%g = gt %a, %b\n%l = lt %a, %b\n%h = mul %dy, 0.5\n%t = select %l, 0.0, %h\n"
    "%da = select %g, %dy, %t\n%u = select %g, 0.0, %h\n%db = select %l, %dy, %u\nyield %da, %db";
constexpr const char* kMinGrad =
    "%g = lt %a, %b\n%l = gt %a, %b\n%h = mul %dy, 0.5\n%t = select %l, 0.0, %h\n"
    "%da = select %g, %dy, %t\n%u = select %g, 0.0, %h\n%db = select %l, %dy, %u\nyield %da, %db";

const Row kRows[] = {
    {"add",
     "a + b",
     kNumbers,
     "a + b",
     "yield %dy, %dy",
     {kBoth, {ThroughRow::Affine, 0b11}, monotone(kFloats, false, 0b01), monotone(kFloats, false, 0b10)},
     addWhen,
     "T[5, 3], 2\n2, T[5, 3]"},
    {"sub",
     "a - b",
     kNumbers,
     "a - b",
     "%db = neg %dy\nyield %dy, %db",
     {kBoth, {ThroughRow::Affine, 0b11}, monotone(kFloats, false, 0b01), monotone(kFloats, true, 0b10)},
     addWhen,
     "T[5, 3], 2\n2, T[5, 3]"},
    {"mul",
     "a * b",
     kNumbers,
     "a * b",
     "%da = mul %dy, %b\n%db = mul %dy, %a\nyield %da, %db",
     {{ThroughRow::Bilinear, 0b11},
      {ThroughRow::Multiplicative, 0b11},
      monotone(kFloats, false, 0b01),
      monotone(kFloats, true, 0b01),
      monotone(kFloats, false, 0b10),
      monotone(kFloats, true, 0b10)},
     scaleWhen,
     "T[5, 3], 2\nT[5, 3], -3\n2, T[5, 3]\n-3, T[5, 3]"},
    {"div",
     "a / b; integers truncate",
     kNumbers,
     "a / b",
     "%da = div %dy, %b\n%t = mul %da, %y\n%db = neg %t\nyield %da, %db",
     {linear(0b01, kFloats | kComplex),
      monotone(kNumbers, false, 0b01),
      monotone(kNumbers, true, 0b01),
      {ThroughRow::Multiplicative, 0b11, false, ~0u, 0, kFloats}},
     scaleWhen,
     kByLiteral},
    {"floor_div",
     "a / b, rounded down; b * floor_div + mod is a where b is not 0",
     kNumbers,
     "floor_div(a, b)",
     "yield none, none",
     {monotone(kInts, false, 0b01), monotone(kInts, true, 0b01)}, // of infinite floats it is NaN, as in NumPy
     scaleWhen,
     "T[5, 3], 2\nT[5, 3], -3\n-3, T[5, 3]"},
    {"rem", "remainder with the dividend's sign", kNumbers, "rem(a, b)",
     "%q = div %a, %b\n%t = trunc %q\n%u = mul %dy, %t\n%db = neg %u\nyield %dy, %db"},
    {"mod", "remainder with the divisor's sign", kNumbers, "mod(a, b)",
     "%q = floor_div %a, %b\n%u = mul %dy, %q\n%db = neg %u\nyield %dy, %db"},
    {"max",
     "the greater; NaN stays",
     kNumbers,
     "max(a, b)",
     kMaxGrad,
     {monotone(kNumbers, false, 0b11), {ThroughRow::LatticeMax, 0b11}}},
    {"min",
     "the lesser; NaN stays",
     kNumbers,
     "min(a, b)",
     kMinGrad,
     {monotone(kNumbers, false, 0b11), {ThroughRow::LatticeMin, 0b11}}},
    {"atan2", "angle of the point (b, a)", kFloats, "atan2(a, b)",
     "%p = mul %a, %a\n%q = mul %b, %b\n%r = add %p, %q\n%s = div %dy, %r\n%da = mul %s, %b\n%t = mul %s, "
     "%a\n"
     "%db = neg %t\nyield %da, %db"},
    {"and",
     "logical on bool, bitwise on integers",
     kBits,
     "and(a, b)",
     nullptr,
     {monotone(kBools, false, 0b11), {ThroughRow::LatticeAll, 0b11}}},
    {"or",
     "logical on bool, bitwise on integers",
     kBits,
     "or(a, b)",
     nullptr,
     {monotone(kBools, false, 0b11), {ThroughRow::LatticeAny, 0b11}}},
    {"xor", "logical on bool, bitwise on integers", kBits, "xor(a, b)", nullptr},
    {"shl", "a * 2^b; past the width 0", kInts, "shl(a, b)", nullptr, {linear(0b01)}},
    {"shr",
     "a / 2^b rounded down; past the width 0, or -1 for negative a",
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

// x < R: the max is below exactly where all are, NaN included; the min is where any is, which NaN breaks.
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
  r.throughNone = through.empty();
  r.through = std::move(through);
  r.scalar = scalar;
  addComplexForm(r);
  return r;
}

} // namespace

void addBinaryOps(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord r = binary(row.name, row.summary, row.scalar, row.through);
    r.operandClasses = row.classes;
    r.throughWhen = row.throughWhen;
    r.grad = row.grad;
    r.gradNone = row.grad == nullptr;
    r.samples = row.samples;
    ops.add(std::move(r));
  }
  OpRecord pow = binary("pow", "a to the power b; integer bases are exact and wrap", "pow(a, b)",
                        {{ThroughRow::Multiplicative, 0b01}, monotone(kFloats, false, 0b01)});
  pow.operandClasses = kNumbers;
  pow.sameDType = false;
  pow.verify = powVerify;
  pow.literal = OpRecord::LiteralType::Exponent;
  pow.throughWhen = powWhen;
  pow.gradFn = powGrad;
  pow.complexFn = powPlanes;
  pow.samples = "T[5, 3], 2\nT[5, 3], 3\nT[5, 3], i32[5, 3] in 0..4\nT[5, 3], i32[3] in 0..4";
  ops.add(std::move(pow));
  for (const Comparison& row : kComparisons) {
    OpRecord r = binary(row.name, row.summary, row.scalar, row.through);
    r.resultType = OpRecord::ResultType::Bool;
    r.operandClasses = row.classes;
    r.gradNone = true;
    ops.add(std::move(r));
  }
}

} // namespace dtc
