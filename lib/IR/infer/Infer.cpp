// Infers result types from the rule and reports mismatches.
#include "../AttrTypes.h"
#include "dtc/IR/infer/RuleText.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Words.h"
#include <algorithm>

namespace dtc {

namespace {

inline constexpr DiagKind kContractMismatch{"contract-mismatch", "'{0}' {1}"};
inline constexpr DiagKind kOperandCount{"operand-count", "'{0}' takes {1}, but {2} given{3}"};
inline constexpr DiagKind kOperandDType{"operand-dtype", "'{0}' takes {1} for {2}, but it is {3}"};
inline constexpr DiagKind kDTypeMismatch{"dtype-mismatch",
                                         "'{0}' has {1} of {2} and {3} of {4}: dtypes are not promoted "
                                         "implicitly; write `convert {5} {dtype = {6}}`"};
inline constexpr DiagKind kBroadcastMemory{"type-too-large", "the result of '{0}' would exceed 2^63-1 bytes"};
inline constexpr DiagKind kResultTypeMissing{"result-type-missing", "'{0}' needs an explicit result type"};

inline constexpr DiagKind kNoComplexResult{
    "complex-result", "'{0}' does not support {1}: compute in real numbers and `convert` the result"};

uint8_t classBit(DType d) { return isBool(d) ? 1 : isInteger(d) ? 2 : isFloat(d) ? 4 : 8; }

// "bool or an integer dtype", "a float or complex dtype"
std::string classNames(uint8_t classes) {
  if ((classes & 7) == 7) return "any dtype";
  std::vector<std::string> kinds;
  if (classes & 2) kinds.emplace_back("integer");
  if (classes & 4) kinds.emplace_back("float");
  if (classes & 8) kinds.emplace_back("complex");
  std::string text = classes & 1 ? "bool" : "";
  if (kinds.empty()) return text.empty() ? "nothing" : text;
  text += text.empty() ? "" : " or ";
  text += classes & 2 ? "an " : "a ";
  for (size_t i = 0; i < kinds.size(); ++i)
    text += (i == 0 ? "" : i + 1 == kinds.size() ? " or " : ", ") + kinds[i];
  return text + " dtype";
}

std::string countText(Arity a) {
  auto plural = [](uint32_t n) { return n == 1 ? "1 operand" : std::to_string(n) + " operands"; };
  if (a.max == ~0u) return "at least " + plural(a.min);
  if (a.min == a.max) return plural(a.min);
  return std::to_string(a.min) + " to " + plural(a.max);
}

// The word of "bool, T, T" for operand i; the last word applies to all further operands.
std::string_view dtypeWord(const OpRecord& r, size_t operand) {
  if (!r.operandTypes) return r.sameDType ? "T" : "any";
  std::string_view text = r.operandTypes;
  for (size_t i = 0;; ++i) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (i == operand || comma == std::string_view::npos) return trimmed(word);
    text.remove_prefix(comma + 1);
  }
}

SourceRange operandLoc(const OpQuery& q, size_t i) {
  return i < q.operandLocs.size() ? q.operandLocs[i] : SourceRange();
}

// Adds a note "%w1 is f32[1024, 2048]" at the definition of the operand.
void noteOperand(Diagnostic& d, const OpQuery& q, size_t operand) {
  if (operand >= q.operands.size()) return;
  d.note((*q.module)[q.operands[operand]].loc,
         q.operandText(operand) + " is " + typeText(*q.module, q.operandTypes[operand]));
}

bool reportDType(const OpQuery& q, size_t operand, std::string_view wanted) {
  Diagnostic& d = q.diags->error(kOperandDType, q.loc, q.record->name, wanted, q.operandText(operand),
                                 typeText(*q.module, q.operandTypes[operand]));
  d.alsoAt(operandLoc(q, operand));
  noteOperand(d, q, operand);
  return false;
}

// The dtype of the two to which the other converts with less loss: floats over integers over bool, then by
// precision.
DType widerOf(DType a, DType b) {
  auto weight = [](DType d) {
    return isComplex(d) ? 200 + mantissaBits(d)
           : isFloat(d) ? 100 + mantissaBits(d)
           : isBool(d)  ? 0
                        : dtypeBytes(d);
  };
  return weight(b) > weight(a) ? b : a;
}

bool reportMismatch(const OpQuery& q, size_t first, size_t second) {
  DType a = q.type(first).dtype, b = q.type(second).dtype, to = widerOf(a, b);
  size_t narrow = to == a ? second : first;
  Diagnostic& d = q.diags->error(kDTypeMismatch, q.loc, q.record->name, q.operandText(first), dtypeName(a),
                                 q.operandText(second), dtypeName(b), q.operandText(narrow), dtypeName(to));
  d.alsoAt(operandLoc(q, first)).alsoAt(operandLoc(q, second));
  noteOperand(d, q, second);
  return false;
}

// The operand that determines T: the first with the word T, or operand 0 if there is none; -1 without
// operands.
int typeGiver(const OpQuery& q) {
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    if (dtypeWord(*q.record, i) == "T") return static_cast<int>(i);
  return q.operandTypes.empty() ? -1 : 0;
}

bool checkDTypes(const OpQuery& q) {
  const OpRecord& r = *q.record;
  int producer = -1;
  bool ok = true;
  // A literal takes its dtype from the other operands, so their error is reported once; also for %x, %x.
  auto saidBefore = [&](size_t i) {
    if (i >= q.operands.size()) return false;
    const bool literal = (*q.module)[q.operands[i]].kind == ValueKind::Literal;
    return !ok &&
           (literal || std::ranges::find(q.operands.first(i), q.operands[i]) != q.operands.begin() + i);
  };
  for (size_t i = 0; i < q.operandTypes.size(); ++i) {
    DType d = q.type(i).dtype;
    std::string_view word = dtypeWord(r, i);
    if (word == "bool"    ? !isBool(d)
        : word == "i32"   ? d != DType::I32
        : word == "int"   ? !isInteger(d)
        : word == "float" ? !isFloat(d)
                          : false) {
      if (saidBefore(i)) continue;
      ok = reportDType(q, i, word == "int" ? "an integer dtype" : word == "float" ? "a float dtype" : word);
      continue;
    }
    if (word != "T" && r.operandTypes) continue;
    if (!(classBit(d) & r.allClasses())) {
      if (saidBefore(i)) continue;
      ok = reportDType(q, i, classNames(r.allClasses()));
      continue;
    }
    if (word != "T") continue;
    if (producer < 0)
      producer = static_cast<int>(i);
    else if (q.type(static_cast<size_t>(producer)).dtype != d)
      ok = reportMismatch(q, static_cast<size_t>(producer), i);
  }
  return ok;
}

bool checkCount(const OpQuery& q) {
  Arity a = operandArity(*q.record);
  size_t n = q.operandTypes.size();
  if (n >= a.min && n <= a.max) return true;
  return q.diags->fail(kOperandCount, q.loc, q.record->name, countText(a),
                       n == 1 ? "1 is" : std::to_string(n) + " are",
                       a.max > 1 && *q.record->operands ? ": " + std::string(q.record->operands) : "");
}

std::optional<DType> resultDType(const OpQuery& q, size_t result) {
  switch (q.record->resultType) {
  case OpRecord::ResultType::Bool: return DType::Bool;
  case OpRecord::ResultType::I32: return DType::I32;
  case OpRecord::ResultType::AttrDType: return q.dtypeAttr("dtype");
  case OpRecord::ResultType::Same:
  case OpRecord::ResultType::Part:
  case OpRecord::ResultType::Complex:
  case OpRecord::ResultType::Custom: break;
  }
  const int producer = typeGiver(q);
  if (producer >= 0) {
    const DType d = q.type(static_cast<size_t>(producer)).dtype;
    if (q.record->resultType == OpRecord::ResultType::Complex) return complexType(d);
    return q.record->resultType == OpRecord::ResultType::Part ? partType(d) : d;
  }
  if (result < q.writtenTypes.size()) return q.module->types[q.writtenTypes[result]].dtype;
  return std::nullopt;
}

bool typesFromRule(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  for (size_t i = 0; i < rule.results.size(); ++i) {
    auto dtype = resultDType(q, i);
    if (!dtype) return q.diags->fail(kResultTypeMissing, q.loc, q.record->name);
    Type t{*dtype, {}};
    __int128 bytes = dtypeBytes(*dtype);
    bool fits = true, empty = false;
    for (const DimMap& m : rule.results[i].dims) {
      auto size = sizeOfMap(rule, m, q.module->dims);
      fits = fits && size;
      if (!fits) break;
      empty = empty || *size == Dim(0);
      if (size->isStatic() && bytes <= INT64_MAX) bytes *= std::max<int64_t>(size->value(), 1);
      t.dims.push_back(*size);
    }
    if (!fits || (bytes > INT64_MAX && !empty)) return q.diags->fail(kBroadcastMemory, q.loc, q.record->name);
    results.push_back(q.module->types.intern(std::move(t)));
  }
  return true;
}

} // namespace

uint16_t addFactor(Rule& rule, Dim size, std::string name, FactorKind kind, PendingKind reduce) {
  rule.factors.push_back({std::move(name), size, kind, reduce});
  return static_cast<uint16_t>(rule.factors.size() - 1);
}

void addOperandFactors(const OpQuery& q, size_t operand, Rule& rule) {
  TensorMap map;
  const Type& t = q.type(operand);
  for (size_t d = 0; d < t.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, t.dims[d], "i" + std::to_string(d))));
  rule.operands.push_back(std::move(map));
}

std::optional<Dim> sizeOfMap(const Rule& rule, const DimMap& map, DimTable& dims) {
  if (map.form == DimMap::Affine) return std::nullopt;
  if (map.terms.size() == 1) return rule.factors[map.terms[0].factor].size;
  Dim size(1);
  for (const Term& t : map.terms) {
    auto product = dims.mul(size, rule.factors[t.factor].size);
    if (!product) return std::nullopt;
    size = *product;
  }
  return size;
}

std::string typeText(const Module& m, TypeId id) {
  const Type& t = m.types[id];
  std::string text(dtypeName(t.dtype));
  text += '[';
  for (size_t d = 0; d < t.rank(); ++d) text += (d ? ", " : "") + printDim(t.dims[d], m.dims, m.strings);
  return text + "]";
}

bool reportDims(const OpQuery& q, std::string_view how, std::string_view with, size_t operandA, size_t dimA,
                size_t operandB, size_t dimB) {
  auto dimText = [&](size_t operand, size_t dim) {
    return std::to_string(dim) + " of " + q.operandText(operand) + " (" +
           printDim(q.type(operand).dims[dim], q.module->dims, q.module->strings) + ")";
  };
  std::string text(how);
  text += " " + dimText(operandA, dimA) + " " + std::string(with) + " " + dimText(operandB, dimB);
  Diagnostic& d = q.diags->error(how.starts_with("contracts") ? kContractMismatch : kDimMismatch, q.loc,
                                 q.record->name, text);
  d.alsoAt(operandLoc(q, operandA)).alsoAt(operandLoc(q, operandB));
  noteOperand(d, q, operandB);
  return false;
}

bool reportRank(const OpQuery& q, size_t operand, std::string_view need) {
  Diagnostic& d = q.diags->error(kRankMismatch, q.loc, q.record->name, q.operandText(operand), need,
                                 typeText(*q.module, q.operandTypes[operand]));
  d.alsoAt(operandLoc(q, operand));
  noteOperand(d, q, operand);
  return false;
}

bool ruleOf(const OpQuery& q, Rule& rule) {
  if (q.record->rule) return q.record->rule(q, rule);
  if (q.record->ruleText) return ruleFromText(q, q.record->ruleText, rule);
  // No rule: no dim may be sharded.
  for (size_t i = 0; i < q.operandTypes.size(); ++i) {
    size_t first = rule.factors.size();
    addOperandFactors(q, i, rule);
    for (size_t f = first; f < rule.factors.size(); ++f) rule.factors[f].kind = FactorKind::Whole;
  }
  return true;
}

static bool inferAnew(const OpQuery& q, std::vector<TypeId>& results) {
  if (!checkCount(q) || !checkAttrs(q) || !checkDTypes(q)) return false;
  if (q.record->infer ? !q.record->infer(q, results) : !typesFromRule(q, results)) return false;
  for (TypeId t : results) {
    const DType d = q.module->types[t].dtype;
    if (!isComplex(d) || (q.record->allClasses() & 8)) continue;
    return q.diags->fail(kNoComplexResult, q.loc, q.record->name, dtypeName(d));
  }
  return !q.record->verify || q.record->verify(q);
}

// What the result types depend on, except for the mesh, which those of collectives depend on, too.
static SmallVector<uint32_t, 32> inferenceKey(const OpQuery& q) {
  SmallVector<uint32_t, 32> key;
  const auto record = reinterpret_cast<uintptr_t>(q.record);
  key.push_back(static_cast<uint32_t>(record));
  key.push_back(static_cast<uint32_t>(record >> 32));
  for (std::span<const TypeId> list : {q.operandTypes, q.writtenTypes}) {
    key.push_back(static_cast<uint32_t>(list.size()));
    for (TypeId t : list) key.push_back(t.index);
  }
  if (q.attrs)
    for (const NamedAttr& a : *q.attrs) {
      const std::string_view name = q.module->strings[a.name];
      if (findSpec(kCommonAttrs, name) && !findSpec(q.record->attrs, name)) continue; // such as the location
      key.push_back(a.name.index);
      key.push_back(a.value.index);
    }
  return key;
}

bool inferResultTypes(const OpQuery& q, std::vector<TypeId>& results) {
  DTC_CHECK(q.diags, "inference needs a Diagnostics");
  results.clear();
  if (q.record->isCollective() || !q.record->isRegistered()) return inferAnew(q, results);
  InferredTypes& known = q.module->inferred;
  const SmallVector<uint32_t, 32> key = inferenceKey(q);
  const std::span<const uint32_t> numbers(key.data(), key.size());
  if (const std::vector<TypeId>* types = known.find(numbers)) {
    results = *types;
    return true;
  }
  const size_t said = q.diags->all().size();
  if (!inferAnew(q, results)) return false;
  if (q.diags->all().size() == said) known.add(numbers, results);
  return true;
}

} // namespace dtc
