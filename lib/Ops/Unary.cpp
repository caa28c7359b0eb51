// Functions of one element.
#include "ComplexFunctions.h"
#include "RecordParts.h"
#include "dtc/IR/Builder.h"
#include "dtc/Ops/Scalar.h"
#include "dtc/Sharding/Wire.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <algorithm>

namespace dtc {

namespace {

// A row of the table below: what differs between pointwise functions.
struct Row {
  const char* name;
  const char* summary;
  uint8_t classes;
  const char* scalar;
  const char* grad; // nullptr: the result has no gradient (bool, integers)
  std::vector<Through> through = {};
};

const Row kRows[] = {
    {"neg", "-x", kNumbers, "-a", "%dx = neg %dy\nyield %dx", {linear(), monotone(kFloats, true)}},
    {"abs",
     "|x|",
     kNumbers,
     "abs(a)",
     "%s = sign %x\n%dx = mul %dy, %s\nyield %dx",
     {{ThroughRow::Multiplicative, 1, false, ~0u, 0, kFloats}}},
    {"sign", "-1, 0 or 1; zeros and NaN stay", kNumbers, "sign(a)", "yield none", {monotone(kNumbers)}},
    {"exp", "e to the x", kFloats, "exp(a)", "%dx = mul %dy, %y\nyield %dx", {monotone()}},
    {"exp2",
     "2 to the x",
     kFloats,
     "exp2(a)",
     "%t = mul %dy, %y\n%dx = mul %t, 0.6931471805599453\nyield %dx",
     {monotone()}},
    {"expm1",
     "exp(x) - 1, exact near 0",
     kFloats,
     "expm1(a)",
     "%t = add %y, 1.0\n%dx = mul %dy, %t\nyield %dx",
     {monotone()}},
    {"log", "natural logarithm", kFloats, "log(a)", "%dx = div %dy, %x\nyield %dx"},
    {"log2", "logarithm to base 2", kFloats, "log2(a)",
     "%t = mul %x, 0.6931471805599453\n%dx = div %dy, %t\nyield %dx"},
    {"log1p", "log(1 + x), exact near 0", kFloats, "log1p(a)",
     "%t = add %x, 1.0\n%dx = div %dy, %t\nyield %dx"},
    {"sqrt", "square root", kFloats, "sqrt(a)", "%t = mul %dy, 0.5\n%dx = div %t, %y\nyield %dx"},
    {"rsqrt", "1 / sqrt(x)", kFloats, "rsqrt(a)",
     "%c = mul %y, %y\n%d = mul %c, %y\n%t = mul %d, -0.5\n%dx = mul %dy, %t\nyield %dx"},
    {"reciprocal",
     "1 / x",
     kFloats,
     "1 / a",
     "%s = mul %y, %y\n%t = mul %dy, %s\n%dx = neg %t\nyield %dx",
     {{ThroughRow::Multiplicative}}},
    {"square",
     "x * x",
     kNumbers,
     "a * a",
     "%t = mul %x, 2.0\n%dx = mul %dy, %t\nyield %dx",
     {{ThroughRow::Multiplicative}}},
    {"sin", "sine", kFloats, "sin(a)", "%t = cos %x\n%dx = mul %dy, %t\nyield %dx"},
    {"cos", "cosine", kFloats, "cos(a)", "%t = sin %x\n%u = mul %dy, %t\n%dx = neg %u\nyield %dx"},
    {"tan", "tangent", kFloats, "tan(a)", "%s = mul %y, %y\n%t = add %s, 1.0\n%dx = mul %dy, %t\nyield %dx"},
    {"asin", "inverse sine", kFloats, "asin(a)",
     "%s = mul %x, %x\n%t = sub 1.0, %s\n%r = rsqrt %t\n%dx = mul %dy, %r\nyield %dx"},
    {"acos", "inverse cosine", kFloats, "acos(a)",
     "%s = mul %x, %x\n%t = sub 1.0, %s\n%r = rsqrt %t\n%u = mul %dy, %r\n%dx = neg %u\nyield %dx"},
    {"atan",
     "inverse tangent",
     kFloats,
     "atan(a)",
     "%s = mul %x, %x\n%t = add %s, 1.0\n%dx = div %dy, %t\nyield %dx",
     {monotone()}},
    {"sinh",
     "hyperbolic sine",
     kFloats,
     "sinh(a)",
     "%t = cosh %x\n%dx = mul %dy, %t\nyield %dx",
     {monotone()}},
    {"cosh", "hyperbolic cosine", kFloats, "cosh(a)", "%t = sinh %x\n%dx = mul %dy, %t\nyield %dx"},
    {"tanh",
     "hyperbolic tangent",
     kFloats,
     "tanh(a)",
     "%s = mul %y, %y\n%t = sub 1.0, %s\n%dx = mul %dy, %t\nyield %dx",
     {monotone()}},
    {"sigmoid",
     "1 / (1 + exp(-x))",
     kFloats,
     "1 / (1 + exp(-a))",
     "%t = sub 1.0, %y\n%u = mul %y, %t\n%dx = mul %dy, %u\nyield %dx",
     {monotone()}},
    {"relu",
     "max(x, 0); NaN stays",
     kNumbers,
     "max(a, 0)",
     "%p = gt %x, 0.0\n%dx = select %p, %dy, 0.0\nyield %dx",
     {monotone(kNumbers)}},
    {"silu", "x * sigmoid(x)", kFloats, "a / (1 + exp(-a))",
     "%s = sigmoid %x\n%t = sub 1.0, %s\n%u = mul %x, %t\n%v = add %u, 1.0\n%w = mul %s, %v\n%dx = mul %dy, "
     "%w\nyield %dx"},
    {"erf",
     "error function",
     kFloats,
     "erf(a)",
     "%s = mul %x, %x\n%t = neg %s\n%e = exp %t\n%u = mul %e, 1.1283791670955126\n%dx = mul %dy, %u\nyield "
     "%dx",
     {monotone()}},
    {"erfc",
     "1 - erf(x), exact for large x",
     kFloats,
     "erfc(a)",
     "%s = mul %x, %x\n%t = neg %s\n%e = exp %t\n%u = mul %e, -1.1283791670955126\n%dx = mul %dy, %u\nyield "
     "%dx",
     {monotone(kFloats, true)}},
    {"floor", "largest whole number that is not above x", kFloats, "floor(a)", "yield none", {monotone()}},
    {"ceil", "smallest whole number that is not below x", kFloats, "ceil(a)", "yield none", {monotone()}},
    {"round", "nearest whole number, halves to even", kFloats, "round(a)", "yield none", {monotone()}},
    {"trunc", "whole part", kFloats, "trunc(a)", "yield none", {monotone()}},
    {"not", "logical on bool, bitwise on integers", kBits, "not(a)", nullptr, {monotone(kBits, true)}},
};

OpRecord recordOf(const Row& row) {
  OpRecord r{.name = row.name, .family = "unary", .summary = row.summary};
  r.ruleText = "pointwise";
  r.operandClasses = row.classes;
  r.through = row.through;
  r.throughNone = row.through.empty();
  r.scalar = row.scalar;
  r.grad = row.grad;
  r.gradNone = row.grad == nullptr;
  addComplexForm(r);
  if (std::string_view(r.name) == "abs") r.resultType = OpRecord::ResultType::Part;
  return r;
}

void addPredicates(OpRegistry& ops) {
  static constexpr std::array<const char*, 3> rows[] = {
      {"is_nan", "is x NaN?", "is_nan(a)"},
      {"is_inf", "is x an infinity?", "is_inf(a)"},
      {"is_finite", "is x neither NaN nor infinite?", "is_finite(a)"}};
  for (auto& [name, summary, scalar] : rows) {
    OpRecord r{.name = name, .family = "unary", .summary = summary};
    r.ruleText = "pointwise";
    r.resultType = OpRecord::ResultType::Bool;
    r.operandClasses = kFloats;
    if (std::string_view(name) == "is_nan") r.through = {{ThroughRow::IsNan}};
    r.throughNone = r.through.empty();
    r.scalar = scalar;
    r.gradNone = true;
    ops.add(std::move(r));
  }
}

// --- the functions with attributes ---

constexpr const char* kGeluGrad =
    "%s = mul %x, 0.7071067811865476\n%e = erf %s\n%c = add %e, 1.0\n%h = mul %c, 0.5\n"
    "%q = mul %s, %s\n%n = neg %q\n%g = exp %n\n%d = mul %g, 0.3989422804014327\n"
    "%p = mul %x, %d\n%t = add %h, %p\n%dx = mul %dy, %t\nyield %dx";
// x s(z), where s is the logistic function and z = x (c + 0.044715 c x²), c = 2 sqrt(2 / pi): s (1 + x z' (1 - s)).
constexpr const char* kGeluTanhGrad =
    "%q = mul %x, %x\n%a = mul %q, 0.0713548162726009\n%b = add %a, 1.5957691216057308\n%z = mul %x, %b\n"
    "%s = sigmoid %z\n%c = mul %q, 0.2140644488178027\n%d = add %c, 1.5957691216057308\n%e = mul %x, %d\n"
    "%r = sub 1.0, %s\n%f = mul %e, %r\n%g = add %f, 1.0\n%h = mul %s, %g\n%dx = mul %dy, %h\nyield %dx";

bool geluGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  OpQuery q = queryOf(b.module, op, b.diags);
  std::pair<std::string_view, ValueId> bindings[] = {{"x", b.module.operand(op, 0)}, {"dy", dy[0]}};
  return b.inlineText(q.textAttr("approximate") == "tanh" ? kGeluTanhGrad : kGeluGrad, bindings, out);
}

inline constexpr DiagKind kGeluApproximate{"attribute-value",
                                           "'gelu' takes approximate = \"none\" or \"tanh\", not \"{0}\""};
bool geluVerify(const OpQuery& q) {
  std::string_view a = q.textAttr("approximate");
  if (a == "none" || a == "tanh") return true;
  q.diags->error(kGeluApproximate, q.loc, a);
  return false;
}
std::optional<double> geluNumbers(const OpQuery& q, std::string_view name) {
  if (name == "tanh") return q.textAttr("approximate") == "tanh" ? 1.0 : 0.0;
  return std::nullopt;
}

// An attribute as the op's dtype has it.
double roundedAttr(const OpQuery& q, std::string_view name) {
  return roundToFloat(q.type(0).dtype, q.floatAttr(name));
}
inline constexpr DiagKind kSoftplusBeta{"attribute-value",
                                        "'softplus' divides by beta: it cannot be 0 in {0}"};
bool softplusVerify(const OpQuery& q) {
  if (roundedAttr(q, "beta") != 0) return true;
  q.diags->error(kSoftplusBeta, q.loc, dtypeName(q.type(0).dtype));
  return false;
}
// By a slope of 0 the infinity below becomes NaN.
bool leakyWhen(const OpQuery& q, const Through&) {
  const double slope = roundedAttr(q, "slope");
  return slope > 0 && std::isfinite(slope);
}
bool softplusWhen(const OpQuery& q, const Through&) {
  const double beta = roundedAttr(q, "beta");
  return beta != 0 && std::isfinite(beta);
}

void addWithAttributes(OpRegistry& ops) {
  OpRecord gelu{.name = "gelu", .family = "unary", .summary = "x times the normal distribution up to x"};
  gelu.attrs = {{"approximate", AttrType::String, "none", "\"none\" (by erf) or \"tanh\""}};
  gelu.ruleText = "pointwise";
  gelu.operandClasses = kFloats;
  gelu.verify = geluVerify;
  gelu.throughNone = true;
  // With tanh: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)).
  gelu.scalar = "select($tanh, a / (1 + exp(-1.5957691216057308 * (a + 0.044715 * a * a * a))), "
                "0.5 * a * erfc(-a * 0.7071067811865476))";
  gelu.derive = geluNumbers;
  gelu.gradFn = geluGrad;
  gelu.flopsPerPoint = 8;
  gelu.samples = "T[5, 3] {approximate = \"tanh\"}";
  ops.add(std::move(gelu));

  OpRecord leaky{.name = "leaky_relu", .family = "unary", .summary = "x where x > 0, else slope * x"};
  leaky.attrs = {{"slope", AttrType::Float, "0.01", "factor below 0"}};
  leaky.ruleText = "pointwise";
  leaky.operandClasses = kFloats;
  leaky.through = {monotone()};
  leaky.throughWhen = leakyWhen;
  leaky.scalar = "select(a > 0, a, $slope * a)";
  leaky.samples = "T[5, 3] {slope = -0.5}\nT[5, 3] {slope = 0.0}";
  leaky.grad = "%p = gt %x, 0.0\n%s = mul %dy, $slope\n%dx = select %p, %dy, %s\nyield %dx";
  ops.add(std::move(leaky));

  OpRecord softplus{.name = "softplus", .family = "unary", .summary = "log(1 + exp(beta * x)) / beta"};
  softplus.attrs = {{"beta", AttrType::Float, "1.0", "steepness, not 0"}};
  softplus.ruleText = "pointwise";
  softplus.operandClasses = kFloats;
  softplus.verify = softplusVerify;
  softplus.through = {monotone()};
  softplus.throughWhen = softplusWhen;
  softplus.scalar = "(max($beta * a, 0) + log1p(exp(-abs($beta * a)))) / $beta";
  softplus.grad = "%t = mul %x, $beta\n%s = sigmoid %t\n%dx = mul %dy, %s\nyield %dx";
  softplus.flopsPerPoint = 4;
  softplus.samples = "T[5, 3] {beta = 2.5}\nT[5, 3] {beta = -1.5}";
  ops.add(std::move(softplus));
}

// --- convert, bitcast, stop_gradient ---

// Which rows a convert has depends on both dtypes (sharding.md §2, "Per dtype class").
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
    if (isFloat(from) && isFloat(to))
      return holdsAll(to, from) || (from == DType::F32 && to == DType::BF16); // bf16 has the range of f32
    return isInteger(from) && isInteger(to) && dtypeBytes(to) <= dtypeBytes(from); // both wrap
  case ThroughRow::Monotone:
    if (to == DType::F8E4M3 && from != to) return false;    // overflow gives NaN
    if (t.kinds) return isFloat(from) && isUnsignedInt(to); // NaN gives 0, the least
    if (isFloat(to)) return !isBool(from);
    if (!isInteger(from) || !isInteger(to)) return false; // NaN gives 0
    if (isSignedInt(from) != isSignedInt(to)) return isUnsignedInt(from) && dtypeBytes(to) > dtypeBytes(from);
    return dtypeBytes(to) >= dtypeBytes(from);
  default: return false;
  }
}

bool convertGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  DType from = b.module.typeOf(b.module.operand(op, 0)).dtype;
  ValueId dx;
  if (isFloat(from)) dx = b.value("convert", {dy[0]}, {{"dtype", b.word(dtypeName(from))}});
  out.push_back(dx);
  return true;
}

// To a complex dtype a real number gets a zero as its imaginary part; from one to a real dtype the imaginary part is
// dropped (to bool: is either part not 0?).
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
  auto converted = [&](ValueId v) {
    return b.module.typeOf(v).dtype == part ? v
                                            : b.value("convert", {v}, {{"dtype", b.word(dtypeName(part))}});
  };
  const ValueId re = converted(planes[0]);
  if (isBool(to))
    out.push_back(b.value("or", {re, converted(planes[1])}));
  else
    out.push_back(re);
  if (!isComplex(to)) return true;
  const bool real = !isComplex(q.type(0).dtype);
  out.push_back(real ? b.constant(0, b.module[re].type) : converted(planes[1]));
  return true;
}

inline constexpr DiagKind kBitcastSize{"bitcast-size",
                                       "'bitcast' keeps the bits, but {0} has {1} bytes and {2} has {3}"};
bool bitcastVerify(const OpQuery& q) {
  DType from = q.type(0).dtype, to = q.dtypeAttr("dtype").value_or(from);
  if (dtypeBytes(from) == dtypeBytes(to) && isBool(from) == isBool(to) && !isComplex(to)) return true;
  q.diags->error(kBitcastSize, q.loc, dtypeName(from), dtypeBytes(from), dtypeName(to), dtypeBytes(to));
  return false;
}
// Through the true dtypes, whatever dtype the evaluator keeps its floats in.
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
  OpRecord convert{.name = "convert",
                   .family = "unary",
                   .summary = "the value in another dtype; floats to integers saturate"};
  convert.attrs = {{"dtype", AttrType::DTypeName, nullptr, "of the result"}};
  convert.ruleText = "pointwise";
  convert.resultType = OpRecord::ResultType::AttrDType;
  convert.through = {moving(),
                     linear(),
                     monotone(kNumbers),
                     {ThroughRow::Multiplicative},
                     {ThroughRow::BoolToNumber},
                     {ThroughRow::Monotone, 1, false, ~0u, kindBit(PendingKind::Min)}};
  convert.throughWhen = convertWhen;
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
  ops.add(std::move(convert));

  OpRecord bitcast{
      .name = "bitcast", .family = "unary", .summary = "the same bits as another dtype of the same size"};
  bitcast.attrs = {{"dtype", AttrType::DTypeName, nullptr, "of the result"}};
  bitcast.ruleText = "pointwise";
  bitcast.resultType = OpRecord::ResultType::AttrDType;
  bitcast.verify = bitcastVerify;
  bitcast.through = {moving()};
  bitcast.throughWhen = [](const OpQuery& q, const Through&) {
    return q.dtypeAttr("dtype") == q.type(0).dtype;
  };
  bitcast.scalar = "bitcast(a)";
  bitcast.eval = bitcastEval;
  bitcast.gradNone = true;
  bitcast.samples = "T[5, 3] {dtype = i32}\nT[5, 3] {dtype = f32}\nT[5, 3] {dtype = u8}\nT[5, 3] {dtype = "
                    "i64}\nT[5, 3] {dtype = i16}";
  ops.add(std::move(bitcast));

  OpRecord stop{.name = "stop_gradient", .family = "unary", .summary = "x, through which no gradient flows"};
  stop.ruleText = "pointwise";
  stop.through = {moving()};
  stop.grad = "yield none";
  stop.lowering = Lowering::Annotation;
  stop.flopsPerPoint = 0;
  stop.complex = OpRecord::ComplexForm::Planes;
  ops.add(std::move(stop));
}

} // namespace

void addUnaryOps(OpRegistry& ops) {
  for (const Row& row : kRows) ops.add(recordOf(row));
  addPredicates(ops);
  addWithAttributes(ops);
  addConversions(ops);
}

} // namespace dtc
