// Elementwise functions of one operand.
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/record/GradientText.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include "elementwise/ComplexFunctions.h"
#include "record/RecordParts.h"
#include <algorithm>

namespace dtc {

namespace {

// A row of the table below: the columns in which pointwise functions differ.
struct UnaryRow {
  const char* name;
  const char* summary;
  uint8_t classes;
  const char* scalar;
  const char* grad; // nullptr: the result has no gradient (bool, integers)
  std::vector<Through> through = {};
  OpChecks checks = {};
};

const UnaryRow kUnaryRows[] = {
    {"neg", "-x", kNumbers, "-a", "-dy", {linear(), monotone(kFloats, true)}, exact()},
    {"abs",
     "|x|",
     kNumbers,
     "abs(a)",
     "dy * sign(x)",
     {{ThroughRow::Multiplicative, 1, false, ~0u, 0, kFloats}},
     exact()},
    {"sign",
     "-1, 0 or 1; zeros and NaN propagate",
     kNumbers,
     "sign(a)",
     "none",
     {monotone(kNumbers)},
     exactJump()},
    {"exp",
     "e^x",
     kFloats,
     "exp(a)",
     "dy * y",
     {monotone()},
     within({Domain::Small},
            {{"P(sum) -> P(prod)", "a product of exponentials overflows where the sum does not"}})},
    {"exp2",
     "2^x",
     kFloats,
     "exp2(a)",
     "dy * y * 0.6931471805599453",
     {monotone()},
     within({Domain::Small},
            {{"P(sum) -> P(prod)", "a product of powers overflows where the sum does not"}})},
    {"expm1",
     "exp(x) - 1, accurate near 0",
     kFloats,
     "expm1(a)",
     "dy * (y + 1)",
     {monotone()},
     within({Domain::Small})},
    {"log", "natural logarithm", kFloats, "log(a)", "dy / x", {}, within({Domain::Positive}, {kMinByNan})},
    {"log2",
     "logarithm to base 2",
     kFloats,
     "log2(a)",
     "dy / (x * 0.6931471805599453)",
     {},
     within({Domain::Positive}, {kMinByNan})},
    {"log1p",
     "log(1 + x), accurate near 0",
     kFloats,
     "log1p(a)",
     "dy / (x + 1)",
     {},
     within({Domain::Positive}, {kMinByNan})},
    {"sqrt", "square root", kFloats, "sqrt(a)", "dy * 0.5 / y", {}, within({Domain::Positive}, {kMinByNan})},
    {"rsqrt", "1 / sqrt(x)", kFloats, "rsqrt(a)", "dy * (y * y * y * -0.5)", {}, within({Domain::Positive})},
    {"reciprocal",
     "1 / x",
     kFloats,
     "1 / a",
     "-(dy * (y * y))",
     {{ThroughRow::Multiplicative}},
     within({Domain::Positive})},
    {"square",
     "x * x",
     kNumbers,
     "a * a",
     "dy * (x * 2)",
     {{ThroughRow::Multiplicative}},
     within({Domain::Small})},
    {"sin", "sine", kFloats, "sin(a)", "dy * cos(x)"},
    {"cos", "cosine", kFloats, "cos(a)", "-(dy * sin(x))"},
    {"tan", "tangent", kFloats, "tan(a)", "dy * (y * y + 1)", {}, within({Domain::Small})},
    {"asin", "inverse sine", kFloats, "asin(a)", "dy * rsqrt(1 - x * x)", {}, within({Domain::Unit})},
    {"acos", "inverse cosine", kFloats, "acos(a)", "-(dy * rsqrt(1 - x * x))", {}, within({Domain::Unit})},
    {"atan", "inverse tangent", kFloats, "atan(a)", "dy / (x * x + 1)", {monotone()}},
    {"sinh", "hyperbolic sine", kFloats, "sinh(a)", "dy * cosh(x)", {monotone()}, within({Domain::Small})},
    {"cosh", "hyperbolic cosine", kFloats, "cosh(a)", "dy * sinh(x)", {}, within({Domain::Small})},
    {"tanh", "hyperbolic tangent", kFloats, "tanh(a)", "dy * (1 - y * y)", {monotone()}},
    {"sigmoid", "1 / (1 + exp(-x))", kFloats, "1 / (1 + exp(-a))", "dy * (y * (1 - y))", {monotone()}},
    {"relu",
     "max(x, 0); NaN propagates",
     kNumbers,
     "max(a, 0)",
     "select(x > 0, dy, 0)",
     {monotone(kNumbers)},
     exact()},
    {"silu", "x * sigmoid(x)", kFloats, "a / (1 + exp(-a))", "s = sigmoid(x); dy * (s * (x * (1 - s) + 1))"},
    {"erf", "error function", kFloats, "erf(a)", "dy * (exp(-(x * x)) * 1.1283791670955126)", {monotone()}},
    {"erfc",
     "1 - erf(x), accurate for large x",
     kFloats,
     "erfc(a)",
     "dy * (exp(-(x * x)) * -1.1283791670955126)",
     {monotone(kFloats, true)}},
    {"log_sigmoid",
     "log(sigmoid(x)), accurate for large |x|",
     kFloats,
     "min(a, 0) - log1p(exp(-abs(a)))",
     "dy * sigmoid(-x)",
     {monotone()}},
    {"floor", "largest integer not above x", kFloats, "floor(a)", "none", {monotone()}, exactJump()},
    {"ceil", "smallest integer not below x", kFloats, "ceil(a)", "none", {monotone()}, exactJump()},
    {"round", "nearest integer, ties to even", kFloats, "round(a)", "none", {monotone()}, exactJump()},
    {"trunc", "integer part", kFloats, "trunc(a)", "none", {monotone()}, exactJump()},
    {"not", "logical on bool, bitwise on integers", kBits, "not(a)", nullptr, {monotone(kBits, true)}},
};

OpRecord recordOf(const UnaryRow& row) {
  OpRecord r{.name = row.name, .family = "unary", .summary = row.summary};
  r.ruleText = "pointwise";
  r.operandClasses = row.classes;
  r.through = row.through;
  r.scalar = row.scalar;
  r.checks = row.checks;
  r.grad = row.grad;
  r.gradNone = row.grad == nullptr;
  addComplexForm(r);
  if (std::string_view(r.name) == "abs") r.resultType = OpRecord::ResultType::Part;
  return r;
}

void addPredicates(OpRegistry& ops) {
  static constexpr std::array<const char*, 3> rows[] = {
      {"is_nan", "true where x is NaN", "is_nan(a)"},
      {"is_inf", "true where x is infinite", "is_inf(a)"},
      {"is_finite", "true where x is neither NaN nor infinite", "is_finite(a)"}};
  for (auto& [name, summary, scalar] : rows) {
    OpRecord& r = ops.add({.name = name, .family = "unary", .summary = summary});
    r.ruleText = "pointwise";
    r.resultType = OpRecord::ResultType::Bool;
    r.operandClasses = kFloats;
    r.checks = discontinuous();
    if (std::string_view(name) == "is_finite")
      r.checks.coincidences = {{"P(sum) -> P(all)", "a sum of finite values may overflow"},
                               {"P(avg) -> P(all)", "a sum of finite values may overflow"},
                               {"P(prod) -> P(all)", "a product of finite values may overflow"}};
    if (std::string_view(name) == "is_nan") r.through = {{ThroughRow::IsNan}};
    r.scalar = scalar;
    r.gradNone = true;
  }
}

// --- the functions with attributes ---

constexpr const char* kGeluGrad = "s = x * 0.7071067811865476; "
                                  "dy * ((erf(s) + 1) * 0.5 + x * (exp(-(s * s)) * 0.3989422804014327))";
// x s(z), where s is the logistic function and z = x (c + 0.044715 c x²), c = 2 sqrt(2 / pi): s (1 + x z' (1
// - s)).
constexpr const char* kGeluTanhGrad =
    "q = x * x; s = sigmoid(x * (q * 0.0713548162726009 + 1.5957691216057308)); "
    "dy * (s * (x * (q * 0.2140644488178027 + 1.5957691216057308) * (1 - s) + 1))";

bool geluGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  OpQuery q = queryOf(b.module, op, b.diags);
  const std::pair<std::string_view, ValueId> values[] = {{"x", b.module.operand(op, 0)}, {"dy", dy[0]}};
  out = GradientText(q.textAttr("approximate") == "tanh" ? kGeluTanhGrad : kGeluGrad).build(b, q, values);
  return true;
}

bool geluVerify(const OpQuery& q) { return textChoice(q, "approximate", {"none", "tanh"}); }
std::optional<double> geluNumbers(const OpQuery& q, std::string_view name) {
  if (name == "tanh") return q.textAttr("approximate") == "tanh" ? 1.0 : 0.0;
  return std::nullopt;
}

// An attribute, rounded to the op's dtype.
double roundedAttr(const OpQuery& q, std::string_view name) {
  return roundToFloat(q.type(0).dtype, q.floatAttr(name));
}
inline constexpr DiagKind kSoftplusBeta{"attribute-value",
                                        "'softplus' divides by beta: it cannot be 0 in {0}"};
bool softplusVerify(const OpQuery& q) {
  if (roundedAttr(q, "beta") != 0) return true;
  return q.diags->fail(kSoftplusBeta, q.loc, dtypeName(q.type(0).dtype));
}
// With a slope of 0, -inf becomes NaN.
bool leakyWhen(const OpQuery& q, const Through&) {
  const double slope = roundedAttr(q, "slope");
  return slope > 0 && std::isfinite(slope);
}
bool softplusWhen(const OpQuery& q, const Through&) {
  const double beta = roundedAttr(q, "beta");
  return beta != 0 && std::isfinite(beta);
}

void addWithAttributes(OpRegistry& ops) {
  OpRecord& gelu =
      ops.add({.name = "gelu", .family = "unary", .summary = "x times the standard normal CDF of x"});
  gelu.attrs = {{"approximate", AttrType::String, "none", "\"none\" (erf) or \"tanh\""}};
  gelu.ruleText = "pointwise";
  gelu.operandClasses = kFloats;
  gelu.verify = geluVerify;
  // With tanh: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)).
  gelu.scalar = "select($tanh, a / (1 + exp(-1.5957691216057308 * (a + 0.044715 * a * a * a))), "
                "0.5 * a * erfc(-a * 0.7071067811865476))";
  gelu.derive = geluNumbers;
  gelu.gradFn = geluGrad;
  gelu.flopsPerPoint = 8;
  gelu.samples = "T[5, 3] {approximate = \"tanh\"}";

  OpRecord& leaky =
      ops.add({.name = "leaky_relu", .family = "unary", .summary = "x where x > 0, else slope * x"});
  leaky.attrs = {{"slope", AttrType::Float, "0.01", "factor for x < 0"}};
  leaky.ruleText = "pointwise";
  leaky.operandClasses = kFloats;
  leaky.through = {monotone()};
  leaky.throughWhen = leakyWhen;
  leaky.checks.coincidences = {{"P(min) -> P(min)", "of slope 0: it holds only because of NaN"}};
  leaky.scalar = "select(a > 0, a, $slope * a)";
  leaky.samples = "T[5, 3] {slope = -0.5}\nT[5, 3] {slope = 0.0}";
  leaky.grad = "select(x > 0, dy, dy * $slope)";

  OpRecord& softplus =
      ops.add({.name = "softplus", .family = "unary", .summary = "log(1 + exp(beta * x)) / beta"});
  softplus.attrs = {{"beta", AttrType::Float, "1.0", "steepness, not 0"}};
  softplus.ruleText = "pointwise";
  softplus.operandClasses = kFloats;
  softplus.verify = softplusVerify;
  softplus.through = {monotone()};
  softplus.throughWhen = softplusWhen;
  softplus.scalar = "(max($beta * a, 0) + log1p(exp(-abs($beta * a)))) / $beta";
  softplus.grad = "dy * sigmoid(x * $beta)";
  softplus.flopsPerPoint = 4;
  softplus.samples = "T[5, 3] {beta = 2.5}\nT[5, 3] {beta = -1.5}";
}

// --- convert, bitcast, stop_gradient ---

// The rows of a convert depend on both dtypes (sharding.md, "Per dtype class").
bool convertWhen(const OpQuery& q, const Through& t) {
  DType from = q.type(0).dtype, to = q.dtypeAttr("dtype").value_or(from);
  if (isComplex(from) || isComplex(to)) { // part by part
    if (!isFloat(partType(from)) || !isFloat(partType(to))) return false;
    const bool keeps =
        holdsAll(partType(to), partType(from)) || (partType(from) == DType::F32 && to == DType::BF16);
    return t.row == ThroughRow::Linear && keeps;
  }
  switch (t.row) {
  case ThroughRow::Moving: return from == to;
  case ThroughRow::BoolToNumber: return isBool(from) && !isBool(to);
  case ThroughRow::Linear:
  case ThroughRow::Multiplicative:
    // bf16 has the range of f32
    if (isFloat(from) && isFloat(to)) return holdsAll(to, from) || (from == DType::F32 && to == DType::BF16);
    return isInteger(from) && isInteger(to) && dtypeBytes(to) <= dtypeBytes(from); // both wrap
  // overflow gives NaN
  case ThroughRow::Monotone:
    if (to == DType::F8E4M3 && from != to) return false;
    if (t.kinds) return isFloat(from) && isUnsignedInt(to); // NaN becomes 0, the min
    if (isFloat(to)) return !isBool(from);
    if (!isInteger(from) || !isInteger(to)) return false; // NaN becomes 0
    if (isSignedInt(from) != isSignedInt(to)) return isUnsignedInt(from) && dtypeBytes(to) > dtypeBytes(from);
    return dtypeBytes(to) >= dtypeBytes(from);
  default: return false;
  }
}

bool convertGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  DType from = b.module.typeOf(b.module.operand(op, 0)).dtype;
  out.push_back(isFloat(from) ? convert(Expr(b, dy[0]), from) : Expr());
  return true;
}

// A real number converts to a complex dtype with a zero imaginary part; from a complex to a real dtype the
// imaginary part is dropped (to bool: whether either part is nonzero).
bool convertComplexEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const DType to = *q.dtypeAttr("dtype");
  for (int64_t i = 0; i < out[0]->numElements(); ++i) {
    const std::complex<double> v = in[0]->getComplex(i);
    if (isComplex(to))
      out[0]->setComplex(i, v);
    else if (isBool(to))
      out[0]->setInt(i, v.real() != 0 || v.imag() != 0);
    else
      out[0]->setFloat(i, v.real());
  }
  return true;
}

bool convertPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& out) {
  OpQuery q = queryOf(b.module, op, b.diags);
  const DType to = *q.dtypeAttr("dtype"), part = partType(to);
  auto converted = [&](ValueId v) { return Expr(b, v).as(part); };
  const Expr re = converted(planes[0]);
  if (isBool(to))
    out.push_back(re | converted(planes[1]));
  else
    out.push_back(re);
  if (!isComplex(to)) return true;
  const bool real = !isComplex(q.type(0).dtype);
  out.push_back(real ? Expr(b, b.constant(0, re.typeId())) : converted(planes[1]));
  return true;
}

inline constexpr DiagKind kBitcastSize{"bitcast-size",
                                       "'bitcast' keeps the bits, but {0} has {1} bytes and {2} has {3}"};
bool bitcastVerify(const OpQuery& q) {
  DType from = q.type(0).dtype, to = q.dtypeAttr("dtype").value_or(from);
  if (dtypeBytes(from) == dtypeBytes(to) && isBool(from) == isBool(to) && !isComplex(to)) return true;
  return q.diags->fail(kBitcastSize, q.loc, dtypeName(from), dtypeBytes(from), dtypeName(to), dtypeBytes(to));
}
// Uses the declared dtypes, whatever dtype the evaluator stores floats in.
bool bitcastEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  DType from = q.type(0).dtype, to = *q.dtypeAttr("dtype");
  Tensor source(from, in[0]->shape()), target(to, in[0]->shape());
  for (int64_t i = 0; i < source.numElements(); ++i)
    isFloat(from) ? source.setFloat(i, in[0]->getFloat(i)) : source.setInt(i, in[0]->getInt(i));
  std::ranges::copy(source.bytes(), target.bytes().begin());
  for (int64_t i = 0; i < target.numElements(); ++i)
    isFloat(to) ? out[0]->setFloat(i, target.getFloat(i)) : out[0]->setInt(i, target.getInt(i));
  return true;
}

void addConversions(OpRegistry& ops) {
  OpRecord& convert = ops.add({.name = "convert",
                               .family = "unary",
                               .summary = "the value in another dtype; floats to integers saturate"});
  convert.attrs = {{"dtype", AttrType::DTypeName, nullptr, "dtype of the result"}};
  convert.ruleText = "pointwise";
  convert.resultType = OpRecord::ResultType::AttrDType;
  convert.through = {moving(),
                     linear(),
                     monotone(kNumbers),
                     {ThroughRow::Multiplicative},
                     {ThroughRow::BoolToNumber},
                     {ThroughRow::Monotone, 1, false, ~0u, kindBit(PendingKind::Min)}};
  convert.throughWhen = convertWhen;
  convert.checks = discontinuous();
  convert.checks.coincidences = {
      {"P(all) -> P(prod)", "0 and 1 are their own products: P(min) states the same exactly"}};
  convert.scalar = "cast(a)";
  convert.identityWhenSameType = true;
  convert.gradFn = convertGrad;
  convert.complex = OpRecord::ComplexForm::Own;
  convert.complexEval = convertComplexEval;
  convert.complexFn = convertPlanes;
  convert.samples =
      "T[5, 3] {dtype = f32}\nT[5, 3] {dtype = f64}\nT[5, 3] {dtype = bf16}\nT[5, 3] {dtype = f16}\n"
      "T[5, 3] {dtype = f8e4m3}\nT[5, 3] {dtype = i32}\nT[5, 3] {dtype = i8}\nT[5, 3] {dtype = u8}\nT[5, 3] "
      "{dtype = bool}";

  OpRecord& bitcast = ops.add({.name = "bitcast",
                               .family = "unary",
                               .summary = "reinterprets the bits as another dtype of the same size"});
  bitcast.attrs = {{"dtype", AttrType::DTypeName, nullptr, "dtype of the result"}};
  bitcast.ruleText = "pointwise";
  bitcast.resultType = OpRecord::ResultType::AttrDType;
  bitcast.verify = bitcastVerify;
  bitcast.through = {moving()};
  bitcast.throughWhen = [](const OpQuery& q, const Through&) {
    return q.dtypeAttr("dtype") == q.type(0).dtype;
  };
  bitcast.checks = discontinuous();
  bitcast.scalar = "bitcast(a)";
  bitcast.eval = bitcastEval;
  bitcast.gradNone = true;
  bitcast.samples = "T[5, 3] {dtype = i32}\nT[5, 3] {dtype = f32}\nT[5, 3] {dtype = u8}\nT[5, 3] {dtype = "
                    "i64}\nT[5, 3] {dtype = i16}";

  OpRecord& stop = ops.add(dataMovement("stop_gradient", "unary", "x, with gradient 0"));
  stop.ruleText = "pointwise";
  stop.grad = "none";
  stop.lowering = Lowering::Annotation;
}

} // namespace

void addUnaryOps(OpRegistry& ops) {
  for (const UnaryRow& row : kUnaryRows) ops.add(recordOf(row));
  addPredicates(ops);
  addWithAttributes(ops);
  addConversions(ops);
}

} // namespace dtc
