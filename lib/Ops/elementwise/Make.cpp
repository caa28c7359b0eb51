// Ops without tensor operands: the written type gives dtype and shape.
#include "dtc/IR/Element.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include "record/RecordParts.h"
#include <cmath>

namespace dtc {

namespace {

// One factor per dim of the written type; `rank` (or -1) is the required rank.
bool writtenFactors(const OpQuery& q, Rule& rule, int rank) {
  if (q.writtenTypes.empty()) {
    if (q.diags) q.diags->error(kNeedsType, q.loc, q.record->name);
    return false;
  }
  const Type& t = q.module->types[q.writtenTypes[0]];
  if (rank >= 0 && t.rank() != static_cast<size_t>(rank))
    return q.diags->fail(kRankMismatch, q.loc, q.record->name, "a result", rank,
                         typeText(*q.module, q.writtenTypes[0]));
  TensorMap map;
  for (size_t d = 0; d < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "i" + std::to_string(d))));
  rule.results.push_back(std::move(map));
  rule.operands.resize(q.operandTypes.size()); // offsets are scalars
  return true;
}

bool writtenType(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  results.assign(1, q.writtenTypes[0]);
  return true;
}

// --- constant ---

bool isSplat(const OpQuery& q) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  if (a.kind == Attr::List) return false;
  if (a.kind != Attr::String) return true;
  size_t digits = q.module->strings[a.text].size();
  return digits == 2 + 2 * static_cast<size_t>(dtypeBytes(q.module->types[q.writtenTypes[0]].dtype));
}

bool isZeros(const OpQuery& q) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  return (a.kind == Attr::Int && a.i == 0) || (a.kind == Attr::Float && a.f == 0 && !std::signbit(a.f));
}

// A list is not sharded: it is materialized in full and sliced.
bool constantRule(const OpQuery& q, Rule& rule) {
  if (!writtenFactors(q, rule, -1)) return false;
  if (!isSplat(q))
    for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

inline constexpr DiagKind kConstantShape{"shape-mismatch",
                                         "'constant': the value does not have the shape {0}"};
inline constexpr DiagKind kConstantElement{"constant-element", "'constant': {0} cannot hold {1}"};
inline constexpr DiagKind kConstantBytes{
    "constant-bytes", "'constant': \"0x…\" must have {0} hex digits ({1}) or {2} (a splat), but it has {3}"};

// Whether an element fits the dtype (any float fits a float dtype: it is rounded).
bool elementFits(const Attr& a, DType d) {
  if (a.kind == Attr::Bool) return isBool(d);
  if (a.kind == Attr::Float) return isFloat(partType(d));
  if (a.kind != Attr::Int || isBool(d)) return false;
  if (isFloat(partType(d))) return true;
  if (d == DType::U64) return a.isUnsigned || a.i >= 0;
  return !a.isUnsigned && a.i >= intMin(d) && a.i <= intMax(d);
}

// `depth`: the number of enclosing dims. An element of a complex dtype is a number or a pair.
bool checkElements(const OpQuery& q, AttrId id, const Type& t, size_t depth) {
  const Attr& a = q.module->attrs[id];
  if (depth < t.rank()) {
    bool fits = a.kind == Attr::List && t.dims[depth].isStatic() &&
                t.dims[depth].value() == static_cast<int64_t>(a.list.size());
    if (!fits) return q.diags->fail(kConstantShape, q.loc, typeText(*q.module, q.writtenTypes[0]));
    for (AttrId e : a.list)
      if (!checkElements(q, e, t, depth + 1)) return false;
    return true;
  }
  if (isComplex(t.dtype) && a.kind == Attr::List && a.list.size() == 2) // (real, imaginary)
    return checkElements(q, a.list[0], {partType(t.dtype), {}}, 0) &&
           checkElements(q, a.list[1], {partType(t.dtype), {}}, 0);
  if (a.kind == Attr::List)
    return q.diags->fail(kConstantShape, q.loc, typeText(*q.module, q.writtenTypes[0]));
  if (elementFits(a, t.dtype)) return true;
  std::string text = a.kind == Attr::Int    ? std::to_string(a.i)
                     : a.kind == Attr::Bool ? (a.i ? "true" : "false")
                                            : std::to_string(a.f);
  return q.diags->fail(kConstantElement, q.loc, dtypeName(t.dtype), text);
}

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool checkBytes(const OpQuery& q, std::string_view text, const Type& t) {
  bool hex = text.size() > 2 && text.substr(0, 2) == "0x";
  for (char c : text.substr(hex ? 2 : 0)) hex &= hexDigit(c) >= 0;
  size_t one = 2 * static_cast<size_t>(dtypeBytes(t.dtype)), have = hex ? text.size() - 2 : 0;
  auto n = t.isStatic() ? t.numElements() : std::nullopt;
  if (hex && (have == one || (n && have / one == static_cast<size_t>(*n) && have % one == 0))) return true;
  return q.diags->fail(kConstantBytes, q.loc, n ? std::to_string(static_cast<size_t>(*n) * one) : "?",
                       typeText(*q.module, q.writtenTypes[0]), one, have);
}

bool constantVerify(const OpQuery& q) {
  const Type& t = q.module->types[q.writtenTypes[0]];
  AttrId id = q.rawAttr("value");
  const Attr& a = q.module->attrs[id];
  if (a.kind == Attr::String) return checkBytes(q, q.module->strings[a.text], t);
  return checkElements(q, id, t, a.kind == Attr::List ? 0 : t.rank());
}

double realOf(const Attr& a) {
  if (a.kind == Attr::Float) return a.f;
  return a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i);
}

void setElement(const Module& m, Tensor& out, int64_t i, const Attr& a) {
  if (isComplex(out.dtype()) && a.kind == Attr::List)
    out.setComplex(i, {realOf(m.attrs[a.list[0]]), realOf(m.attrs[a.list[1]])});
  else if (isFloat(partType(out.dtype())))
    out.setFloat(i, realOf(a));
  else
    out.setInt(i, a.i);
}

// `depth`: the number of lists around an element.
void fillFrom(const Module& m, AttrId id, size_t depth, Tensor& out, int64_t& at) {
  const Attr& a = m.attrs[id];
  if (depth == 0) return setElement(m, out, at++, a);
  for (AttrId e : a.list) fillFrom(m, e, depth - 1, out, at);
}

// Converts bits in their own dtype to the dtype of the tensor's storage.
void setFrom(Tensor& out, int64_t i, const Tensor& exact, int64_t from) {
  if (isComplex(exact.dtype()))
    out.setComplex(i, exact.getComplex(from));
  else if (isFloat(exact.dtype()))
    out.setFloat(i, exact.getFloat(from));
  else
    out.setInt(i, exact.getInt(from));
}

// Decoded in the declared dtype first, because the bytes of "0x…" are of that dtype.
bool constantEval(const OpQuery& q, std::span<const Tensor* const>, std::span<Tensor* const> out) {
  AttrId id = q.rawAttr("value");
  const Attr& a = q.module->attrs[id];
  if (a.kind == Attr::List) {
    int64_t at = 0;
    fillFrom(*q.module, id, out[0]->rank(), *out[0], at);
    return true;
  }
  if (a.kind != Attr::String) {
    for (int64_t i = 0; i < out[0]->numElements(); ++i) setElement(*q.module, *out[0], i, a);
    return true;
  }
  std::string_view hex = q.module->strings[a.text].substr(2);
  DType dtype = q.module->types[q.writtenTypes[0]].dtype;
  Tensor exact(dtype, {static_cast<int64_t>(hex.size()) / (2 * dtypeBytes(dtype))});
  for (size_t i = 0; i < exact.bytes().size(); ++i)
    exact.bytes()[i] = static_cast<std::byte>(hexDigit(hex[2 * i]) * 16 + hexDigit(hex[2 * i + 1]));
  for (int64_t i = 0; i < out[0]->numElements(); ++i)
    setFrom(*out[0], i, exact, exact.numElements() == 1 ? 0 : i);
  return true;
}

// The planes of a complex constant, each a constant as written.
AttrId partOfValue(Module& m, AttrId id, size_t depth, DType dtype, size_t part) {
  const Attr a = m.attrs[id];
  if (depth > 0 && a.kind == Attr::List) {
    std::vector<AttrId> list;
    for (AttrId e : a.list) list.push_back(partOfValue(m, e, depth - 1, dtype, part));
    return m.attrs.list(std::move(list));
  }
  if (a.kind == Attr::List) return a.list[part];
  if (a.kind != Attr::String) return part == 0 ? id : m.attrs.real(0);
  const std::string hex(m.strings[a.text].substr(2));
  const auto digits = 2 * static_cast<size_t>(dtypeBytes(partType(dtype)));
  std::string own = "0x";
  for (size_t at = part * digits; at < hex.size(); at += 2 * digits) own += hex.substr(at, digits);
  return m.attrs.string(m.strings.intern(own));
}

bool valuePlanes(Builder& b, OpId op, std::span<const ValueId>, std::vector<ValueId>& out) {
  Module& m = b.module;
  const Type type = m.typeOf(m.result(op));
  const TypeId plane = m.tensorType(partType(type.dtype), type.dims);
  const AttrId value = m.attr(op, "value");
  const bool list = m.attrs[value].kind == Attr::List;
  const bool one = std::string_view(m.record(op).name) == "full"; // a pair is one element in `full`
  for (size_t part : {0, 1}) {
    const AttrId own = partOfValue(m, value, list && !one ? type.rank() : 0, type.dtype, part);
    out.push_back(one ? ops::full(b, plane, own) : ops::constant(b, plane, own));
  }
  return true;
}

// --- full, iota, eye ---

bool fullRule(const OpQuery& q, Rule& rule) { return writtenFactors(q, rule, -1); }

bool fullVerify(const OpQuery& q) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  const bool pair = a.kind == Attr::List && isComplex(q.module->types[q.writtenTypes[0]].dtype);
  if (pair || (a.kind != Attr::List && a.kind != Attr::String))
    return checkElements(q, q.rawAttr("value"), q.module->types[q.writtenTypes[0]],
                         q.module->types[q.writtenTypes[0]].rank());
  return q.diags->fail(kConstantShape, q.loc,
                       "with one element: 'full' takes a number, true or false; 'constant' takes lists");
}

bool fullEval(const OpQuery& q, std::span<const Tensor* const>, std::span<Tensor* const> out) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  for (int64_t i = 0; i < out[0]->numElements(); ++i) setElement(*q.module, *out[0], i, a);
  return true;
}

bool iotaRule(const OpQuery& q, Rule& rule) {
  if (!writtenFactors(q, rule, -1)) return false;
  int64_t rank = static_cast<int64_t>(rule.results[0].dims.size()), dim = q.intAttr("dim");
  if (dim < -rank || dim >= rank)
    return q.diags->fail(kRankMismatch, q.loc, q.record->name, "a result",
                         "a dim " + std::to_string(dim) + " among its",
                         typeText(*q.module, q.writtenTypes[0]));
  rule.factors[static_cast<size_t>(dim < 0 ? dim + rank : dim)].kind = FactorKind::Place;
  return true;
}

std::optional<double> iotaNumbers(const OpQuery& q, std::string_view name) {
  if (name != "dim" || q.writtenTypes.empty()) return std::nullopt;
  int64_t dim = q.intAttr("dim");
  return static_cast<double>(dim < 0 ? dim + static_cast<int64_t>(q.module->types[q.writtenTypes[0]].rank())
                                     : dim);
}

bool eyeRule(const OpQuery& q, Rule& rule) {
  if (!writtenFactors(q, rule, 2)) return false;
  for (Factor& f : rule.factors) f.kind = FactorKind::Place;
  return true;
}

// Zeros need no memory: their consumers generate them.
uint32_t constantElement(const OpQuery& q, ElementBuilder& b, size_t) {
  return isZeros(q) ? b.number(0, q.module->types[q.writtenTypes[0]].dtype) : kElementByRule;
}

OpRecord maker(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "make", .summary = summary};
  r.operands = "";
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = writtenType;
  r.typeWritten = true;
  r.gradNone = true;
  r.flopsPerPoint = 0;
  return r;
}

} // namespace

void addMakeOps(OpRegistry& ops) {
  OpRecord& constant = ops.add(maker("constant", "the given elements"));
  constant.attrs = {{"value", AttrType::Value, nullptr,
                     "a number (splat), a nested list, or \"0x…\": the bytes of the elements"}};
  constant.rule = constantRule;
  constant.verify = constantVerify;
  constant.eval = constantEval;
  constant.element = constantElement;
  constant.operandClasses = kAnyDType;
  constant.samples =
      "{value = 1} : T[5, 3]\n{value = true} : T[5]\n{value = [[1, 2, 3], [4, 5, 6]]} : T[2, 3]";
  constant.complex = OpRecord::ComplexForm::Own;
  constant.complexFn = valuePlanes;
  constant.isConstant = true;

  OpRecord& iota = ops.add(maker("iota", "0, 1, 2, … along a dim"));
  iota.operands = "offset?";
  iota.operandTypes = "i32";
  iota.attrs = {{"dim", AttrType::Dim, "0", "the dim along which elements increase"}};
  iota.operandClasses = kNumbers;
  iota.rule = iotaRule;
  iota.scalar = "cast(index($dim) + a)";
  iota.derive = iotaNumbers;
  iota.offsetOperand = 0;
  iota.samples = "{dim = 0} : T[5, 3]\n{dim = 1} : T[5, 3]";

  OpRecord& full = ops.add(maker("full", "one value everywhere"));
  full.attrs = {{"value", AttrType::Value, nullptr, "the value"}};
  full.rule = fullRule;
  full.verify = fullVerify;
  full.isConstant = true;
  full.scalar = "$value";
  full.eval = fullEval;
  full.samples = "{value = 3} : T[5, 3]\n{value = true} : T[5]";
  full.complex = OpRecord::ComplexForm::Own;
  full.complexFn = valuePlanes;

  OpRecord& eye = ops.add(maker("eye", "1 on the diagonal, 0 elsewhere"));
  eye.operands = "row_offset?, column_offset?";
  eye.operandTypes = "i32";
  eye.rule = eyeRule;
  eye.scalar = "cast(index(0) + a == index(1) + b)";
  eye.offsetOperand = 0;
  eye.samples = ": T[5, 3]\n: T[3, 3]";
}

} // namespace dtc
