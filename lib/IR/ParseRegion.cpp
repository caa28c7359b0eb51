// Ops with blocks and calls (ir.md §2.5).
#include "Parser.h"
#include "Verifier.h"
#include "dtc/Support/Counted.h"

#include "dtc/IR/CallSizes.h"
#include "dtc/Support/Result.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kUnknownFunction{"unknown-function", "there is no function @{0}{1}"};
constexpr DiagKind kCallType{"argument-type", "argument {0} of @{1}: expected {2}, found {3}, which is {4}"};
constexpr DiagKind kCallSize{"call-size", "{0}"};
constexpr DiagKind kResultSize{"call-size", "@{0} gives {1}, which has no size in this call"};
constexpr DiagKind kArgumentCount{"argument-count", "@{0} takes {1}, but {2} given"};
constexpr DiagKind kNotALoss{
    "not-a-loss", "value_and_grad needs a function whose first result is a float scalar; @{0} gives {1}"};
constexpr DiagKind kWrtRange{"wrt-range", "'wrt' names argument {0}, but @{1} has {2}, counted from 0"};
constexpr DiagKind kWrtTwice{"duplicate-wrt", "'wrt' names argument {0} twice"};
constexpr DiagKind kWrtFloat{"wrt-float",
                             "'wrt' names argument {0} of @{1}, which is {2}: only floats have gradients"};
constexpr DiagKind kLiteralBind{"literal-needs-type",
                                "a number that starts %{0} needs its type, as in '%{0} = 0 : i32[]'"};
constexpr DiagKind kBindType{"bind-type", "%{0} starts from a value of type {1}, but {2} is written"};
constexpr DiagKind kBindSharding{"bind-sharding", "dim {0} of this sharding has no shard of its own: {1}"};
constexpr DiagKind kOpenBind{
    "open-sharding",
    "an argument of a 'local' block needs a closed sharding: write '_' or an axis in place of '?'"};
constexpr DiagKind kSecondBlock{
    "syntax", "'{0}' needs two blocks, the second right after the first; only one is given"};
constexpr DiagKind kCondOperand{"operand-count", "'cond' takes one operand, its predicate"};
constexpr DiagKind kLocalTypes{
    "result-type-missing",
    "the results of 'local' need their global types and shardings written after the block"};
constexpr DiagKind kYieldLiteral{"literal-needs-type",
                                 "this number needs a dtype: write the type of the result after the block"};
constexpr DiagKind kStackedBound{
    "stacked-bound",
    "'for' stacks one row for each iteration, so its bounds must be numbers, or 0 and a symbol, not values"};
constexpr DiagKind kStackedSize{"type-too-large",
                                "the stacked result of this 'for' has more than 2^63-1 bytes"};

std::string typeList(const Module& m, const std::vector<FuncResult>& results) {
  if (results.empty()) return "nothing";
  return results[0].type.valid() ? printType(m, results[0].type) : "an unknown type";
}

} // namespace

// --- calls ---

bool Parser::calleeOperands(BlockId id, Statement& s) {
  if (!at(Tok::Symbol)) return unexpected("the function to call, such as '@f'");
  s.callee = {m_.strings.intern(text(tok()).substr(1)), tok().range()};
  ++pos_;
  if (!expect(Tok::LParen, "'(' and the arguments")) return false;
  if (accept(Tok::RParen)) return true;
  return operandList(id, s.operands) && expect(Tok::RParen, "',' or ')'");
}

bool Parser::callStatement(BlockId id, Statement& s) {
  auto it = functions_.find(s.callee.name);
  if (it == functions_.end()) {
    std::vector<std::string_view> known;
    for (const auto& [name, f] : functions_) known.push_back(m_.strings[name]);
    std::sort(known.begin(), known.end());
    std::string_view name = m_.strings[s.callee.name];
    return error(kUnknownFunction, s.callee.range, name, suggestion(Vocabulary::Plain, name, known, "@"));
  }
  const Function& f = m_[it->second];
  if (f.args.size() != s.operands.size()) {
    report(kArgumentCount, s.callee.range, m_.strings[f.name], counted(f.args.size(), "argument"),
           std::to_string(s.operands.size()) + (s.operands.size() == 1 ? " is" : " are"))
        .note(f.loc, "@" + std::string(m_.strings[f.name]) + " is defined here");
    return false;
  }
  std::vector<TypeId> types, given;
  for (size_t i = 0; i < f.args.size(); ++i) {
    TypeId type = m_[f.args[i].value].type;
    if (type.valid() && !typeLiteral(s.operands[i].value, m_.types[type].dtype, "")) return false;
    given.push_back(m_[s.operands[i].value].type);
  }
  if (anyPoisoned(s) && !ownSizes(m_, f).empty()) { // the sizes of its results cannot be told
    definePoisoned(s.names);
    return true;
  }
  SizeMismatch mismatch;
  const auto binding = bindSizes(m_, f, given, mismatch);
  if (!binding) return misfit(s, f, mismatch);
  for (const FuncResult& r : f.results) {
    types.push_back(typeInCall(m_, r.type, *binding, meshOfCall(m_, f)));
    if (r.type.valid() && !types.back().valid())
      return error(kResultSize, s.callee.range, m_.strings[f.name], printType(m_, r.type));
  }
  if (takesGradients(*s.record) && !gradientTypes(s, f, types)) return false;
  OpId op = makeOp(id, s, 0);
  if (!giveResults(s, op, types)) return false;
  m_[id].ops.push_back(op);
  return true;
}

// What is wrong with one argument, at that argument.
bool Parser::misfit(const Statement& s, const Function& f, const SizeMismatch& mismatch) {
  if (suppressed()) return error(kCallSize, {}, "");
  auto written = [&](size_t i) {
    return std::string(
        src_.substr(s.operands[i].range.begin, s.operands[i].range.end - s.operands[i].range.begin));
  };
  auto declared = [&](size_t i) {
    const Value& v = m_[f.args[i].value];
    return "%" + std::string(m_.strings[v.name]) + " is " + printType(m_, v.type);
  };
  const size_t at = mismatch.argument;
  const ValueId given = s.operands[at].value;
  if (!mismatch.first && mismatch.why.empty()) {
    report(kCallType, s.operands[at].range, at, m_.strings[f.name], printType(m_, m_[f.args[at].value].type),
           written(at), printType(m_, m_[given].type))
        .note(m_[f.args[at].value].loc, "the argument is declared here");
    return false;
  }
  Diagnostic& d = report(kCallSize, s.operands[at].range, mismatchText(m_, f, mismatch, written));
  if (mismatch.first) {
    d.alsoAt(s.operands[*mismatch.first].range);
    d.note(m_[f.args[*mismatch.first].value].loc, declared(*mismatch.first));
  }
  d.note(m_[f.args[at].value].loc, declared(at));
  return false;
}

// value_and_grad: after the results of the function, the gradients of the arguments `wrt`, each of its argument's type.
bool Parser::gradientTypes(Statement& s, const Function& f, std::vector<TypeId>& types) {
  std::string_view name = m_.strings[f.name];
  auto typeOf = [&](size_t arg) { // as it is given: with the call's sizes
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
  std::vector<int64_t> seen;
  for (AttrId e : m_.attrs[written->value].list) {
    int64_t i = m_.attrs[e].i;
    if (i < 0 || static_cast<size_t>(i) >= f.args.size())
      return error(kWrtRange, written->valueRange, i, name, counted(f.args.size(), "argument"));
    if (std::find(seen.begin(), seen.end(), i) != seen.end()) return error(kWrtTwice, written->valueRange, i);
    seen.push_back(i);
    auto arg = static_cast<size_t>(i);
    if (!isFloatArg(arg)) return error(kWrtFloat, written->valueRange, i, name, printType(m_, typeOf(arg)));
    types.push_back(typeOf(arg));
  }
  return true;
}

// --- loops and binds ---

bool Parser::loopBounds(BlockId id, Statement& s) {
  if (!at(Tok::Value)) return unexpected("the loop's index, as in 'for %i in 0..8'");
  s.loopIndex = {m_.strings.intern(text(tok()).substr(1)), tok().range()};
  ++pos_;
  if (!acceptWord("in")) return unexpected("'in' and the loop's bounds");
  return bound(id, s.operands.emplace_back()) && expect(Tok::DotDot, "'..' and the upper bound") &&
         bound(id, s.operands.emplace_back());
}

bool Parser::bound(BlockId id, ParsedOperand& out) {
  if (!at(Tok::Int) && !at(Tok::Value) && !atName())
    return unexpected("a bound: a number, a size or a value");
  if (atWord("range") && at(Tok::LParen, 1))
    return unexpected("the loop's bounds", ": write '0..N', as in 'for %i in 0..8'");
  return operand(id, out) && typeLiteral(out.value, DType::I32, "");
}

bool Parser::binds(BlockId id, Statement& s) {
  s.hasBinds = true;
  if (!expect(Tok::LParen, "'(' and what the block is given")) return false;
  return commaList(Tok::RParen, "')'", [&] {
    ParsedBind b;
    if (!at(Tok::Value)) return unexpected("a value's name, as in '%x = %start'");
    b.name = {m_.strings.intern(text(tok()).substr(1)), tok().range()};
    ++pos_;
    if (!expect(Tok::Equal, "'=' and the value that it starts from") || !operand(id, b.start)) return false;
    if (accept(Tok::Colon) && !type(b.type, true)) return false;
    if (atSharding() && !sharding(b.sharding)) return false;
    s.binds.push_back(std::move(b));
    return true;
  });
}

bool Parser::bindTypes(Statement& s, std::vector<TypeId>& types, std::vector<ShardingId>& shardings) {
  bool ok = true;
  for (const ParsedBind& b : s.binds) {
    std::string_view name = m_.strings[b.name.name];
    TypeId& type = types.emplace_back();
    ShardingId& sharding = shardings.emplace_back();
    if (isUntyped(b.start.value)) {
      if (!b.type.id.valid())
        ok = error(kLiteralBind, b.start.range, name);
      else
        ok &= typeLiteral(b.start.value, m_.types[b.type.id].dtype, "");
    }
    TypeId start = m_[b.start.value].type;
    type = start.valid() ? start : b.type.id;
    if (b.type.id.valid() && start.valid() && b.type.id != start)
      ok = error(kBindType, b.type.range, name, printType(m_, start), printType(m_, b.type.id));
    if (!type.valid()) continue;
    ok &= finishSharding(b.sharding, type, sharding);
    if (s.record->regions == RegionKind::Local && sharding.valid()) ok &= localArg(b, sharding, type);
  }
  return ok;
}

// Inside a `local` block the argument is this device's piece.
bool Parser::localArg(const ParsedBind& b, ShardingId id, TypeId& type) {
  const Sharding& s = m_.shardings[id];
  if (!s.closed()) return error(kOpenBind, b.sharding.range);
  Type local = m_.types[type];
  for (size_t d = 0; d < local.dims.size(); ++d) {
    auto piece = localDim(s.dims[d], m_.shardings.mesh(s.mesh), local.dims[d], m_.dims);
    if (!piece)
      return error(kBindSharding, b.sharding.range, d,
                   "it is a piece already, or its blocks do not divide it");
    local.dims[d] = *piece;
  }
  type = m_.types.intern(std::move(local));
  return true;
}

MeshId Parser::meshOfBinds(const Statement& s) const {
  for (const ParsedBind& b : s.binds)
    if (b.sharding.present) return b.sharding.sharding.mesh;
  return m_.shardings.numMeshes() == 1 ? MeshId(0) : localMesh_;
}

// --- ops with blocks ---

bool Parser::regionStatement(BlockId id, Statement& s) {
  if (s.record->regions == RegionKind::Cond) {
    if (s.operands.size() != 1) return error(kCondOperand, s.opRange);
    if (!typeLiteral(s.operands[0].value, DType::Bool, "")) return false;
  }
  std::vector<TypeId> argTypes;
  std::vector<ShardingId> argShardings;
  size_t before = diags_.numErrors();
  bool bindsFit = bindTypes(s, argTypes, argShardings);
  OpId op = makeOp(id, s, numBlocks(s.record->regions));
  if (!regionBlocks(s, op, argTypes, argShardings) || !resultTypes(s)) return false;
  bool unknown = anyPoisoned(s);
  for (uint32_t r = 0; r < m_[op].numRegions; ++r)
    for (ValueId v : m_[m_.region(op, r)].yields) unknown |= poisoned(v);
  if (!bindsFit || diags_.numErrors() != before || unknown) {
    definePoisoned(s.names);
    return true;
  }
  Diagnostics& diags = diags_;
  OpQuery q = queryOf(m_, op, diags);
  std::vector<TypeId> types;
  if (!checkAttrs(q) || !typeYields(s, op) || !regionResults(s, op, types) || !giveResults(s, op, types))
    return false;
  m_[id].ops.push_back(op);
  return true;
}

bool Parser::regionBlocks(Statement& s, OpId op, const std::vector<TypeId>& types,
                          const std::vector<ShardingId>& shardings) {
  RegionKind kind = s.record->regions;
  MeshId outerMesh = localMesh_;
  if (kind == RegionKind::Local) localMesh_ = meshOfBinds(s);
  bool ok = true;
  for (uint32_t r = 0; ok && r < m_[op].numRegions; ++r) {
    BlockId b = m_.region(op, r);
    Scope scope = enterScope(isIsolated(kind));
    if (kind == RegionKind::For) {
      ValueId index =
          m_.makeBlockArg(b, m_.tensorType(DType::I32, std::initializer_list<int64_t>{}), s.loopIndex.name);
      m_[index].loc = s.loopIndex.range;
      define(s.loopIndex, index);
    }
    for (size_t i = 0; i < s.binds.size(); ++i) {
      ValueId arg = m_.makeBlockArg(b, types[i], s.binds[i].name.name);
      m_[arg].loc = s.binds[i].name.range;
      m_[arg].sharding = shardings[i];
      define(s.binds[i].name, arg);
    }
    ok = at(Tok::LBrace)                ? (block(b, false), true)
         : r > 0 && blockHint().empty() ? error(kSecondBlock, s.opRange, s.opName)
                                        : unexpected("'{' and a block", blockHint());
    leaveScope(scope);
  }
  localMesh_ = outerMesh;
  return ok;
}

// The dtype that an untyped literal gets as yield `i` of block `region`.
std::optional<DType> Parser::yieldType(const Statement& s, OpId op, uint32_t region, size_t i) const {
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

bool Parser::typeYields(Statement& s, OpId op) {
  for (uint32_t r = 0; r < m_[op].numRegions; ++r) {
    const std::vector<ValueId> yields = m_[m_.region(op, r)].yields;
    for (size_t i = 0; i < yields.size(); ++i) {
      if (!isUntyped(yields[i])) continue;
      auto dtype = yieldType(s, op, r, i);
      if (!dtype) return error(kYieldLiteral, m_[yields[i]].loc);
      if (!typeLiteral(yields[i], *dtype, "")) return false;
    }
  }
  return true;
}

bool Parser::regionResults(Statement& s, OpId op, std::vector<TypeId>& types) {
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
      if (!stackedType(s, op, m_[first.yields[i]].type, types.emplace_back())) return false;
    return true;
  }
  default:
    for (ValueId v : first.yields) types.push_back(m_[v].type);
    return true;
  }
}

// One more dim in front: as many as the loop has trips.
bool Parser::stackedType(const Statement& s, OpId op, TypeId element, TypeId& out) {
  auto trips = tripCount(m_, op);
  if (!trips) return error(kStackedBound, s.opRange);
  Type t = m_.types[element];
  t.dims.insert(t.dims.begin(), *trips);
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

} // namespace dtc
