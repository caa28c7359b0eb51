// Tensors out of nothing: the written type says dtype and shape.
#include "RecordParts.h"
#include "dtc/IR/Element.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <cmath>

namespace dtc {

namespace {

// One factor per dim of the written type; `rank` (or -1) is what the op asks for.
bool writtenFactors(const OpQuery& q, Rule& rule, int rank) {
  if (q.writtenTypes.empty()) {
    if (q.diags) q.diags->error(kNeedsType, q.loc, q.record->name);
    return false;
  }
  const Type& t = q.module->types[q.writtenTypes[0]];
  if (rank >= 0 && t.rank() != static_cast<size_t>(rank)) {
    q.diags->error(kRankMismatch, q.loc, q.record->name, "a result", rank,
                   typeText(*q.module, q.writtenTypes[0]));
    return false;
  }
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

// A list has no pieces: it is made whole and sliced.
bool constantRule(const OpQuery& q, Rule& rule) {
  if (!writtenFactors(q, rule, -1)) return false;
  if (!isSplat(q))
    for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

inline constexpr DiagKind kConstantShape{"constant-shape",
                                         "'constant': the value does not have the shape {0}"};
inline constexpr DiagKind kConstantElement{"constant-element", "'constant': {0} cannot hold {1}"};
inline constexpr DiagKind kConstantBytes{
    "constant-bytes", "'constant': \"0x…\" must have {0} hex digits ({1}) or {2} (a splat), but it has {3}"};

// Does an element fit the dtype? (a float of any size fits a float dtype: it is rounded)
bool elementFits(const Attr& a, DType d) {
  if (a.kind == Attr::Bool) return isBool(d);
  if (a.kind == Attr::Float) return isFloat(d);
  if (a.kind != Attr::Int || isBool(d)) return false;
  if (isFloat(d)) return true;
  if (d == DType::U64) return a.isUnsigned || a.i >= 0;
  return !a.isUnsigned && a.i >= intMin(d) && a.i <= intMax(d);
}

bool checkElements(const OpQuery& q, AttrId id, const Type& t, size_t depth) {
  const Attr& a = q.module->attrs[id];
  if (depth < t.rank()) {
    bool fits = a.kind == Attr::List && t.dims[depth].isStatic() &&
                t.dims[depth].value() == static_cast<int64_t>(a.list.size());
    if (!fits) {
      q.diags->error(kConstantShape, q.loc, typeText(*q.module, q.writtenTypes[0]));
      return false;
    }
    for (AttrId e : a.list)
      if (!checkElements(q, e, t, depth + 1)) return false;
    return true;
  }
  if (a.kind == Attr::List) {
    q.diags->error(kConstantShape, q.loc, typeText(*q.module, q.writtenTypes[0]));
    return false;
  }
  if (elementFits(a, t.dtype)) return true;
  std::string text = a.kind == Attr::Int    ? std::to_string(a.i)
                     : a.kind == Attr::Bool ? (a.i ? "true" : "false")
                                            : std::to_string(a.f);
  q.diags->error(kConstantElement, q.loc, dtypeName(t.dtype), text);
  return false;
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
  q.diags->error(kConstantBytes, q.loc, n ? std::to_string(static_cast<size_t>(*n) * one) : "?",
                 typeText(*q.module, q.writtenTypes[0]), one, have);
  return false;
}

bool constantVerify(const OpQuery& q) {
  const Type& t = q.module->types[q.writtenTypes[0]];
  AttrId id = q.rawAttr("value");
  const Attr& a = q.module->attrs[id];
  if (a.kind == Attr::String) return checkBytes(q, q.module->strings[a.text], t);
  return checkElements(q, id, t, a.kind == Attr::List ? 0 : t.rank());
}

void setElement(Tensor& out, int64_t i, const Attr& a) {
  if (!isFloat(out.dtype()))
    out.setInt(i, a.i);
  else if (a.kind == Attr::Float)
    out.setFloat(i, a.f);
  else
    out.setFloat(i,
                 a.isUnsigned ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i));
}

void fillFrom(const Module& m, AttrId id, Tensor& out, int64_t& at) {
  const Attr& a = m.attrs[id];
  if (a.kind != Attr::List) return setElement(out, at++, a);
  for (AttrId e : a.list) fillFrom(m, e, out, at);
}

// Into a tensor of the true dtype first: the bytes of "0x…" are its own.
bool constantEval(const OpQuery& q, std::span<const Tensor* const>, std::span<Tensor* const> out) {
  AttrId id = q.rawAttr("value");
  const Attr& a = q.module->attrs[id];
  if (a.kind == Attr::List) {
    int64_t at = 0;
    fillFrom(*q.module, id, *out[0], at);
    return true;
  }
  if (a.kind != Attr::String) {
    for (int64_t i = 0; i < out[0]->numElements(); ++i) setElement(*out[0], i, a);
    return true;
  }
  std::string_view hex = q.module->strings[a.text].substr(2);
  DType dtype = q.module->types[q.writtenTypes[0]].dtype;
  Tensor exact(dtype, {static_cast<int64_t>(hex.size()) / (2 * dtypeBytes(dtype))});
  for (size_t i = 0; i < exact.bytes().size(); ++i)
    exact.bytes()[i] = static_cast<std::byte>(hexDigit(hex[2 * i]) * 16 + hexDigit(hex[2 * i + 1]));
  for (int64_t i = 0; i < out[0]->numElements(); ++i) {
    int64_t from = exact.numElements() == 1 ? 0 : i;
    isFloat(dtype) ? out[0]->setFloat(i, exact.getFloat(from)) : out[0]->setInt(i, exact.getInt(from));
  }
  return true;
}

// --- full, iota, eye ---

bool fullRule(const OpQuery& q, Rule& rule) { return writtenFactors(q, rule, -1); }

bool fullVerify(const OpQuery& q) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  if (a.kind != Attr::List && a.kind != Attr::String)
    return checkElements(q, q.rawAttr("value"), q.module->types[q.writtenTypes[0]],
                         q.module->types[q.writtenTypes[0]].rank());
  q.diags->error(kConstantShape, q.loc,
                 "of one element: 'full' takes a number, true or false; 'constant' takes lists");
  return false;
}

bool fullEval(const OpQuery& q, std::span<const Tensor* const>, std::span<Tensor* const> out) {
  const Attr& a = q.module->attrs[q.rawAttr("value")];
  for (int64_t i = 0; i < out[0]->numElements(); ++i) setElement(*out[0], i, a);
  return true;
}

bool iotaRule(const OpQuery& q, Rule& rule) {
  if (!writtenFactors(q, rule, -1)) return false;
  int64_t rank = static_cast<int64_t>(rule.results[0].dims.size()), dim = q.intAttr("dim");
  if (dim < -rank || dim >= rank) {
    q.diags->error(kRankMismatch, q.loc, q.record->name, "a result",
                   "a dim " + std::to_string(dim) + " among its", typeText(*q.module, q.writtenTypes[0]));
    return false;
  }
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

// Zeros need no memory of their own: whoever reads them makes them.
uint32_t constantElement(const OpQuery& q, ElementBuilder& b, size_t) {
  return isZeros(q) ? b.number(0, q.module->types[q.writtenTypes[0]].dtype) : kElementByRule;
}

OpRecord maker(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "make", .summary = summary};
  r.operands = "";
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = writtenType;
  r.throughNone = true;
  r.gradNone = true;
  r.flopsPerPoint = 0;
  return r;
}

} // namespace

void addMakeOps(OpRegistry& ops) {
  OpRecord constant = maker("constant", "the elements that are written");
  constant.attrs = {{"value", AttrType::Value, nullptr,
                     "a number (a splat), a nested list, or \"0x…\": the elements' bytes"}};
  constant.rule = constantRule;
  constant.verify = constantVerify;
  constant.eval = constantEval;
  constant.element = constantElement;
  constant.operandClasses = kAnyDType;
  constant.samples =
      "{value = 1} : T[5, 3]\n{value = true} : T[5]\n{value = [[1, 2, 3], [4, 5, 6]]} : T[2, 3]";
  ops.add(std::move(constant));

  OpRecord iota = maker("iota", "0, 1, 2, … along a dim");
  iota.operands = "offset?";
  iota.operandTypes = "i32";
  iota.attrs = {{"dim", AttrType::Dim, "0", "the dim that is counted along"}};
  iota.operandClasses = kNumbers;
  iota.rule = iotaRule;
  iota.scalar = "cast(index($dim) + a)";
  iota.derive = iotaNumbers;
  iota.offsetOperand = 0;
  iota.samples = "{dim = 0} : T[5, 3]\n{dim = 1} : T[5, 3]";
  ops.add(std::move(iota));

  OpRecord full = maker("full", "one value everywhere");
  full.attrs = {{"value", AttrType::Value, nullptr, "the value"}};
  full.rule = fullRule;
  full.verify = fullVerify;
  full.scalar = "$value";
  full.eval = fullEval;
  full.samples = "{value = 3} : T[5, 3]\n{value = true} : T[5]";
  ops.add(std::move(full));

  OpRecord eye = maker("eye", "1 on the diagonal, 0 elsewhere");
  eye.operands = "row_offset?, column_offset?";
  eye.operandTypes = "i32";
  eye.rule = eyeRule;
  eye.scalar = "cast(index(0) + a == index(1) + b)";
  eye.offsetOperand = 0;
  eye.samples = ": T[5, 3]\n: T[3, 3]";
  ops.add(std::move(eye));
}

} // namespace dtc
