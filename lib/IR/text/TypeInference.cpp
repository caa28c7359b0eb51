#include "text/TypeInference.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Region.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Counted.h"

#include <algorithm>

namespace dtc {

constexpr DiagKind kLiteralType{"literal-needs-type", "this number needs a dtype: {0}"};
constexpr DiagKind kLiteralBind{"literal-needs-type",
                                "the initial value of %{0} needs a type, as in '%{0} = 0 : i32[]'"};
constexpr DiagKind kBindType{"bind-type", "the initial value of %{0} has type {1}, but {2} is written"};
constexpr DiagKind kBindSharding{"bind-sharding", "dim {0} of this sharding has no shard of its own: {1}"};
constexpr DiagKind kOpenBind{
    "open-sharding",
    "an argument of a 'local' block needs a closed sharding: write '_' or an axis in place of '?'"};
constexpr DiagKind kLocalTypes{"result-type-missing",
                               "the results of 'local' need global types and shardings after the block"};
constexpr DiagKind kYieldLiteral{"literal-needs-type",
                                 "this number needs a dtype: write the type of the result after the block"};
constexpr DiagKind kStackedBound{
    "stacked-bound",
    "'for' stacks one row for each iteration, so its bounds must be numbers, or 0 and a symbol, not values"};
constexpr DiagKind kStackedSize{"type-too-large",
                                "the stacked result of this 'for' has more than 2^63-1 bytes"};
constexpr DiagKind kUnknownFunction{"unknown-function", "there is no function @{0}{1}"};
constexpr DiagKind kCallType{"argument-type", "argument {0} of @{1}: expected {2}, found {3}, which is {4}"};
constexpr DiagKind kCallSize{"call-size", "{0}"};
constexpr DiagKind kResultSize{"call-size", "@{0} returns {1}, whose size is undefined in this call"};
constexpr DiagKind kArgumentCount{"argument-count", "@{0} takes {1}, but {2} given"};
constexpr DiagKind kNotALoss{
    "not-a-loss", "value_and_grad needs a function whose first result is a float scalar; @{0} returns {1}"};
constexpr DiagKind kWrtRange{"wrt-range", "'wrt' names argument {0}, but @{1} has {2}, counted from 0"};
constexpr DiagKind kWrtTwice{"duplicate-wrt", "'wrt' names argument {0} twice"};
constexpr DiagKind kWrtFloat{"wrt-float",
                             "'wrt' names argument {0} of @{1}, which is {2}: only floats have gradients"};

static std::string typeList(const Module& m, const std::vector<FuncResult>& results) {
  if (results.empty()) return "nothing";
  return results[0].type.valid() ? printType(m, results[0].type) : "an unknown type";
}

// --- literals ---

bool TypeInference::typeLiteral(ValueId v, DType d) {
  if (!isUntyped(m_, v)) return true;
  SourceRange range = m_[v].loc;
  if (m_[v].kind == ValueKind::Symbol) {
    if (isBool(d)) return wrongKind(range, "a size", d);
  } else {
    Token t;
    t.begin = range.begin;
    t.end = range.end;
    const Attr& written = m_.attrs[m_[v].literal];
    t.kind = written.kind == Attr::Float ? Tok::Float : written.kind == Attr::Bool ? Tok::Word : Tok::Int;
    Attr value;
    // A size from --dim (or `2*3`) is a number that does not occur in the text.
    bool computed = m_[v].symbol != Dim();
    if (!(computed ? number(std::to_string(written.i), t, d, value) : number(t, d, value))) return false;
    m_[v].symbol = Dim();
    m_[v].literal = m_.attrs.intern(std::move(value));
  }
  m_[v].type = m_.tensorType(d, std::initializer_list<int64_t>{});
  return true;
}

// The dtype of the first non-literal operand whose position requires the same dtype; otherwise that of the
// written result.
std::optional<DType> TypeInference::likeOperands(const Statement& s, size_t operand) const {
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (i == operand || isUntyped(m_, s.operands[i].value) || isPoisoned(m_, s.operands[i].value)) continue;
    OpRecord::LiteralType asked = literalTypeAt(*s.record, i);
    bool exponent = asked == OpRecord::LiteralType::Exponent;
    bool like = asked == OpRecord::LiteralType::Like || (exponent && (i == 0 || operand == 0));
    if (like) return m_.typeOf(s.operands[i].value).dtype;
  }
  bool same = s.record->resultType == OpRecord::ResultType::Same ||
              s.record->resultType == OpRecord::ResultType::Custom;
  if (same && !s.results.empty() && s.results[0].type.id.valid()) return m_.types[s.results[0].type.id].dtype;
  return std::nullopt;
}

bool TypeInference::typeOperands(Statement& s) {
  using LiteralType = OpRecord::LiteralType;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    ValueId v = s.operands[i].value;
    if (!isUntyped(m_, v)) continue;
    LiteralType asked = literalTypeAt(*s.record, i);
    std::optional<DType> d;
    if (asked == LiteralType::Bool) d = DType::Bool;
    if (asked == LiteralType::I32) d = DType::I32;
    if (asked == LiteralType::Exponent && i > 0 &&
        (m_[v].kind == ValueKind::Symbol || m_.attrs[m_[v].literal].kind == Attr::Int)) {
      const bool symbol = m_[v].kind == ValueKind::Symbol;
      const Attr* a = symbol ? nullptr : &m_.attrs[m_[v].literal];
      d = symbol || fitsInteger(DType::I32, a->i, a->isUnsigned) ? DType::I32
          : a->isUnsigned                                        ? DType::U64
                                                                 : DType::I64;
    }
    if (!d) d = likeOperands(s, i);
    if (!d && m_[v].kind == ValueKind::Symbol) d = DType::I32;
    if (!d)
      return error(kLiteralType, s.operands[i].range,
                   "no other operand of '" + std::string(s.opName) +
                       "' determines it: write the result's type");
    if (!typeLiteral(v, *d)) return false;
  }
  return true;
}

// --- ops with blocks ---

bool TypeInference::blockArguments(const Statement& s, std::vector<Argument>& out) {
  bool ok = true;
  for (const ParsedBind& b : s.binds) {
    std::string_view name = m_.strings[b.name.name];
    auto& [type, sharding] = out.emplace_back();
    if (isUntyped(m_, b.start.value)) {
      if (!b.type.id.valid())
        ok = error(kLiteralBind, b.start.range, name);
      else
        ok &= typeLiteral(b.start.value, m_.types[b.type.id].dtype);
    }
    TypeId start = m_[b.start.value].type;
    type = start.valid() ? start : b.type.id;
    if (b.type.id.valid() && start.valid() && b.type.id != start)
      ok = error(kBindType, b.type.range, name, printType(m_, start), printType(m_, b.type.id));
    if (!type.valid()) continue;
    ok &= types_.finishSharding(b.sharding, type, sharding);
    if (s.record->regions == RegionKind::Local && sharding.valid()) ok &= localArgument(b, out.back());
  }
  return ok;
}

// Inside a `local` block the argument is this device's shard.
bool TypeInference::localArgument(const ParsedBind& b, Argument& out) {
  const Sharding& s = m_.shardings[out.sharding];
  if (!s.closed()) return error(kOpenBind, b.sharding.range);
  Type local = m_.types[out.type];
  for (size_t d = 0; d < local.dims.size(); ++d) {
    auto shardDim = localDim(s.dims[d], m_.shardings.mesh(s.mesh), local.dims[d], m_.dims);
    if (!shardDim)
      return error(kBindSharding, b.sharding.range, d,
                   "it is already a shard, or its blocks do not divide it");
    local.dims[d] = *shardDim;
  }
  out.type = m_.types.intern(std::move(local));
  return true;
}

MeshId TypeInference::meshOfBinds(const Statement& s) const {
  for (const ParsedBind& b : s.binds)
    if (b.sharding.present) return b.sharding.sharding.mesh;
  return m_.shardings.numMeshes() == 1 ? MeshId(0) : types_.localMesh;
}

bool TypeInference::typeYields(const Statement& s, OpId op) {
  for (uint32_t r = 0; r < m_[op].numRegions; ++r) {
    const std::vector<ValueId> yields = m_[m_.region(op, r)].yields;
    for (size_t i = 0; i < yields.size(); ++i) {
      if (!isUntyped(m_, yields[i])) continue;
      auto dtype = yieldType(s, op, r, i);
      if (!dtype) return error(kYieldLiteral, m_[yields[i]].loc);
      if (!typeLiteral(yields[i], *dtype)) return false;
    }
  }
  return true;
}

// The dtype of an untyped literal that is yield `i` of block `region`.
std::optional<DType> TypeInference::yieldType(const Statement& s, OpId op, uint32_t region, size_t i) const {
  size_t carried = s.binds.size(), shift = s.record->regions == RegionKind::For ? 1 : 0;
  const Block& b = m_[m_.region(op, region)];
  auto argType = [&](size_t arg) -> std::optional<DType> {
    if (arg >= b.args.size() || !m_[b.args[arg]].type.valid()) return std::nullopt;
    return m_.typeOf(b.args[arg]).dtype;
  };
  auto writtenType = [&]() -> std::optional<DType> {
    if (i >= s.results.size() || !s.results[i].type.id.valid()) return std::nullopt;
    return m_.types[s.results[i].type.id].dtype;
  };
  switch (s.record->regions) {
  case RegionKind::While: return region == 0 ? DType::Bool : argType(i);
  case RegionKind::For: return i < carried ? argType(i + shift) : writtenType();
  case RegionKind::Cond: {
    const std::vector<ValueId>& other = m_[m_.region(op, 1 - region)].yields;
    if (i < other.size() && m_[other[i]].type.valid()) return m_.typeOf(other[i]).dtype;
    return writtenType();
  }
  default: return writtenType();
  }
}

bool TypeInference::regionResults(const Statement& s, OpId op, std::vector<TypeId>& types) {
  const Block& first = m_[m_.region(op, 0)];
  switch (s.record->regions) {
  case RegionKind::While:
    for (ValueId a : first.args) types.push_back(m_[a].type);
    return true;
  case RegionKind::Local:
    for (size_t i = 0; i < first.yields.size(); ++i) {
      if (i >= s.results.size() || !s.results[i].type.id.valid() || !s.results[i].sharding.present)
        return error(kLocalTypes, s.results.empty() ? s.opRange : s.resultsRange);
      types.push_back(s.results[i].type.id);
    }
    return true;
  case RegionKind::For: {
    size_t carried = s.binds.size();
    for (size_t i = 0; i < carried; ++i) types.push_back(m_[first.args[i + 1]].type);
    for (size_t i = carried; i < first.yields.size(); ++i)
      if (!stacked(s, op, m_[first.yields[i]].type, types.emplace_back())) return false;
    return true;
  }
  default:
    for (ValueId v : first.yields) types.push_back(m_[v].type);
    return true;
  }
}

// Prepends a dim: the number of iterations of the loop.
bool TypeInference::stacked(const Statement& s, OpId op, TypeId element, TypeId& out) {
  auto iterations = iterationCount(m_, op);
  if (!iterations) return error(kStackedBound, s.opRange);
  Type t = m_.types[element];
  t.dims.insert(t.dims.begin(), *iterations);
  __int128 bytes = dtypeBytes(t.dtype);
  bool empty = false;
  for (Dim d : t.dims) {
    empty = empty || d == Dim(0);
    if (bytes <= INT64_MAX) bytes *= d.isStatic() ? std::max<int64_t>(d.value(), 1) : 1;
  }
  if (bytes > INT64_MAX && !empty) return error(kStackedSize, s.opRange);
  out = m_.types.intern(std::move(t));
  return true;
}

// --- calls ---

// The function that a call names; of a generic one the instance for its operands. False after an error; nothing
// if the instance depends on poisoned operands, or has been found to have errors.
bool TypeInference::calleeOf(const Statement& s, FuncId& out) {
  if (auto it = functions_.parsed.find(s.callee.name); it != functions_.parsed.end()) {
    out = it->second;
    return true;
  }
  auto it = functions_.onCall.find(s.callee.name);
  if (it == functions_.onCall.end()) {
    std::vector<std::string_view> known;
    for (const auto& [name, f] : functions_.parsed)
      if (!functions_.instances.contains(name)) known.push_back(m_.strings[name]);
    for (const auto& [name, f] : functions_.onCall) known.push_back(m_.strings[name]);
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    std::string_view name = m_.strings[s.callee.name];
    return error(kUnknownFunction, s.callee.range, name, suggestion(Vocabulary::Plain, name, known, "@"));
  }
  if (it->second.failed) {
    in_.quiet = true; // reported before
    return true;
  }
  if (!it->second.parameters.empty() && anyPoisoned(m_, s)) return true;
  std::vector<TypeId> given;
  for (const ParsedOperand& o : s.operands) given.push_back(m_[o.value].type);
  return functions_.instance(it->second, given, s.callee.range, out);
}

bool TypeInference::callResults(Statement& s, std::optional<std::vector<TypeId>>& out) {
  FuncId callee;
  out.reset();
  if (!calleeOf(s, callee)) return false;
  if (!callee.valid()) return true;
  const Function& f = m_[callee];
  s.callee.name = f.name;
  if (f.args.size() != s.operands.size()) {
    diags_
        .error(kArgumentCount, s.callee.range, m_.strings[f.name], counted(f.args.size(), "argument"),
               std::to_string(s.operands.size()) + (s.operands.size() == 1 ? " is" : " are"))
        .note(f.loc, "@" + std::string(m_.strings[f.name]) + " is defined here");
    return false;
  }
  std::vector<TypeId> types, given;
  for (size_t i = 0; i < f.args.size(); ++i) {
    TypeId type = m_[f.args[i].value].type;
    if (type.valid() && !typeLiteral(s.operands[i].value, m_.types[type].dtype)) return false;
    given.push_back(m_[s.operands[i].value].type);
  }
  if (anyPoisoned(m_, s) && !ownSizes(m_, f).empty()) return true;
  SizeMismatch mismatch;
  const auto binding = bindSizes(m_, f, given, mismatch);
  if (!binding) return misfit(s, f, mismatch);
  for (const FuncResult& r : f.results) {
    types.push_back(typeInCall(m_, r.type, *binding, meshOfCall(m_, f)));
    if (r.type.valid() && !types.back().valid())
      return error(kResultSize, s.callee.range, m_.strings[f.name], printType(m_, r.type));
  }
  if (s.record->differentiates && !gradients(s, f, types)) return false;
  out = std::move(types);
  return true;
}

// Reports a mismatched argument at its location.
bool TypeInference::misfit(const Statement& s, const Function& f, const SizeMismatch& mismatch) {
  if (suppressed()) return error(kCallSize, {}, "");
  auto written = [&](size_t i) {
    return std::string(
        in_.text.substr(s.operands[i].range.begin, s.operands[i].range.end - s.operands[i].range.begin));
  };
  auto declared = [&](size_t i) {
    const Value& v = m_[f.args[i].value];
    return "%" + std::string(m_.strings[v.name]) + " is " + printType(m_, v.type);
  };
  const size_t at = mismatch.argument;
  const ValueId given = s.operands[at].value;
  if (!mismatch.first && mismatch.why.empty()) {
    diags_
        .error(kCallType, s.operands[at].range, at, m_.strings[f.name],
               printType(m_, m_[f.args[at].value].type), written(at), printType(m_, m_[given].type))
        .note(m_[f.args[at].value].loc, "the argument is declared here");
    return false;
  }
  Diagnostic& d = diags_.error(kCallSize, s.operands[at].range, mismatchText(m_, f, mismatch, written));
  if (mismatch.first) {
    d.alsoAt(s.operands[*mismatch.first].range);
    d.note(m_[f.args[*mismatch.first].value].loc, declared(*mismatch.first));
  }
  d.note(m_[f.args[at].value].loc, declared(at));
  return false;
}

// value_and_grad returns the results of the function, then the gradients of the arguments `wrt`, with the
// argument types.
bool TypeInference::gradients(const Statement& s, const Function& f, std::vector<TypeId>& types) {
  std::string_view name = m_.strings[f.name];
  auto typeOf = [&](size_t arg) { // the type as passed, with the sizes of the call
    const TypeId given = m_[s.operands[arg].value].type;
    return given.valid() ? given : m_[f.args[arg].value].type;
  };
  auto isFloatArg = [&](size_t arg) {
    return !typeOf(arg).valid() || isFloat(partType(m_.types[typeOf(arg)].dtype));
  };
  bool scalar = !f.results.empty() &&
                (!f.results[0].type.valid() ||
                 (isFloat(m_.types[f.results[0].type].dtype) && m_.types[f.results[0].type].rank() == 0));
  if (!scalar) return error(kNotALoss, s.callee.range, name, typeList(m_, f.results));
  auto written = std::find_if(s.attrs.begin(), s.attrs.end(),
                              [&](const ParsedAttr& a) { return m_.strings[a.name.name] == "wrt"; });
  if (written == s.attrs.end()) {
    for (size_t i = 0; i < f.args.size(); ++i)
      if (isFloatArg(i)) types.push_back(typeOf(i));
    return true;
  }
  std::vector<bool> seen(f.args.size());
  for (AttrId e : m_.attrs[written->value].list) {
    int64_t i = m_.attrs[e].i;
    if (i < 0 || static_cast<size_t>(i) >= f.args.size())
      return error(kWrtRange, written->valueRange, i, name, counted(f.args.size(), "argument"));
    auto arg = static_cast<size_t>(i);
    if (seen[arg]) return error(kWrtTwice, written->valueRange, i);
    seen[arg] = true;
    if (!isFloatArg(arg)) return error(kWrtFloat, written->valueRange, i, name, printType(m_, typeOf(arg)));
    types.push_back(typeOf(arg));
  }
  return true;
}

} // namespace dtc
