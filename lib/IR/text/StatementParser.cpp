#include "text/StatementParser.h"

#include "dtc/IR/Region.h"
#include "dtc/Support/Counted.h"

#include <algorithm>

namespace dtc {

constexpr DiagKind kUnknownOp{"unknown-op", "unknown op '{0}'{1}"};
constexpr DiagKind kUnknownValue{"unknown-value", "unknown value %{0}{1}"};
constexpr DiagKind kNoPercent{"value-name", "'{0}' is the name of a size; the value is %{0}"};
constexpr DiagKind kNoIndexOp{"no-index-op", "'%x[%i]' needs the op index_select"};
constexpr DiagKind kResultCount{"result-count", "'{0}' returns {1}, but {2} assigned"};
constexpr DiagKind kResultNeedsName{"result-needs-name", "'{0}' has {1}: name it, as in '%y = {0} …'"};
constexpr DiagKind kWrittenCount{"result-count", "'{0}' has {1}, but {2} written after it"};
constexpr DiagKind kResultType{"result-type", "the result of '{0}' is {1}, but {2} is written"};
constexpr DiagKind kTerminator{"wrong-terminator", "a {0} ends with '{1}', not with '{2}'"};
constexpr DiagKind kSecondBlock{
    "syntax", "'{0}' needs two blocks, the second right after the first; only one is given"};
constexpr DiagKind kCondOperand{"operand-count", "'cond' takes one operand, its predicate"};

static std::string areGiven(size_t n, std::string_view word) {
  return counted(n, word) + (n == 1 ? " is" : " are");
}

// --- blocks ---

void StatementParser::functionBody(FuncId id) {
  func_ = id;
  scope_.leave({}); // values of the previous function
  for (const FuncArg& a : m_[id].args) scope_.define({m_[a.value].name, m_[a.value].loc}, a.value);
  block(m_[id].body, true);
}

bool StatementParser::snippet(BlockId parent, std::vector<OpId>& out, std::vector<ValueId>& yields) {
  func_ = m_[parent].parentFunc;
  BlockId scratch = m_.makeBlock();
  m_[scratch].parentFunc = func_;
  in_.blockEnd = tokens().size() - 1;
  while (in_.pos < in_.blockEnd && !atWord("yield") && !diags_.hasErrors()) statement(scratch);
  if (!acceptWord("yield")) return unexpected("'yield'");
  std::vector<ParsedOperand> values;
  if (in_.pos < in_.blockEnd && !operandList(scratch, values)) return false;
  if (!at(Tok::End)) return unexpected("the end of the text");
  for (const ParsedOperand& v : values) yields.push_back(v.value);
  for (OpId o : m_[scratch].ops) {
    m_[o].parent = parent;
    out.push_back(o);
  }
  m_[scratch].ops.clear();
  return true;
}

void StatementParser::block(BlockId id, bool isFunction) {
  size_t outerEnd = in_.blockEnd;
  in_.blockEnd = std::max<size_t>(tok().match, in_.pos + 1);
  ++in_.pos;
  bool ended = false;
  while (!ended && in_.pos < in_.blockEnd && !diags_.full()) {
    if (atWord("return") || atWord("yield") || mistakes_.mistypedTerminator(isFunction)) {
      terminator(id, isFunction);
      ended = true;
    } else {
      statement(id);
    }
  }
  if (in_.pos < in_.blockEnd && !diags_.full())
    unexpected("'}' after the " + std::string(isFunction ? "function's results" : "yield"));
  else if (!ended && !diags_.full())
    unexpected(isFunction ? "'return' and the function's results" : "'yield' and the block's results");
  in_.pos = in_.blockEnd;
  accept(Tok::RBrace);
  in_.blockEnd = outerEnd;
}

void StatementParser::terminator(BlockId id, bool isFunction) {
  std::string_view word = text(tok()), wanted = isFunction ? "return" : "yield";
  if (word != wanted && keywordAt(in_.pos).empty())
    error(kTerminator, tok().range(), isFunction ? "function" : "block", wanted, word);
  size_t first = in_.pos++;
  std::vector<ParsedOperand> values;
  bool ok = true;
  if (in_.pos < in_.blockEnd) ok = operandList(id, values);
  for (const ParsedOperand& v : values) m_[id].yields.push_back(v.value);
  m_[id].terminatorLoc = since(first);
  if (!ok)
    in_.pos = in_.blockEnd;
  else if (isFunction)
    literalReturns(id);
}

// Literals that a function returns take the dtypes of its results.
void StatementParser::literalReturns(BlockId id) {
  const std::vector<FuncResult>& results = m_[func_].results;
  const std::vector<ValueId> yields = m_[id].yields;
  for (size_t i = 0; i < yields.size() && i < results.size(); ++i)
    if (results[i].type.valid() && !inference_.typeLiteral(yields[i], m_.types[results[i].type].dtype))
      return;
}

void StatementParser::statement(BlockId id) {
  size_t start = in_.pos;
  Statement s;
  if (statementBody(id, s)) return;
  scope_.definePoisoned(s.names);
  recover(start);
}

// Skips to the next statement of this block: a new line that starts like one.
void StatementParser::recover(size_t start) {
  size_t wrong = in_.pos;
  for (in_.pos = start, step(); in_.pos < in_.blockEnd; step()) {
    if (in_.pos < wrong || !tok().firstOnLine) continue;
    if (at(Tok::Word) || (at(Tok::Value) && (at(Tok::Equal, 1) || at(Tok::Comma, 1)))) break;
  }
  in_.pos = std::min(in_.pos, in_.blockEnd);
}

// --- statements ---

bool StatementParser::statementBody(BlockId id, Statement& s) {
  if (!resultNames(s) || !findRecord(s)) return false;
  const RegionKind regions = s.record->regions;
  if (s.record->isCall) {
    if (!calleeOperands(id, s)) return false;
  } else if (regions == RegionKind::For) {
    if (!loopBounds(id, s)) return false;
  } else if (regions == RegionKind::None || regions == RegionKind::Cond) {
    if (!operands(id, s)) return false;
  }
  if (regions > RegionKind::Cond && (at(Tok::LParen) || regions != RegionKind::For) && !binds(id, s))
    return false;
  if (!attrs_.ofOp(s)) return false;
  if (regions == RegionKind::None && mistakes_.shardingWithoutColon()) return false;
  if (regions != RegionKind::None) return regionStatement(id, s);
  if (!resultTypes(s)) return false;
  if (s.record->isCall) return callStatement(id, s);
  if (anyPoisoned(m_, s)) return scope_.definePoisoned(s.names);
  if (!inference_.typeOperands(s)) return false;
  OpId op = makeOp(id, s, 0);
  std::vector<TypeId> types;
  TypeId written = s.results.empty() ? TypeId() : s.results[0].type.id;
  if (written.valid() && !attrs_.typeValues(s, op, written)) return false;
  if (!inferred(s, op, types) || !setResults(s, op, types)) return false;
  if (!written.valid() && !types.empty() && !attrs_.typeValues(s, op, types[0])) return false;
  m_[id].ops.push_back(op);
  return true;
}

bool StatementParser::resultNames(Statement& s) {
  if (!at(Tok::Value)) return true;
  do {
    ParsedName name;
    if (!expectName(Tok::Value, "the name of a result", name)) return false;
    s.names.push_back(name);
  } while (accept(Tok::Comma));
  if (!at(Tok::Equal)) return mistakes_.noOpHere("'=' and an op");
  ++in_.pos;
  return true;
}

bool StatementParser::findRecord(Statement& s) {
  if (!at(Tok::Word) || (at(Tok::Equal, 1) && s.names.empty())) return mistakes_.noOpHere("an op");
  s.opName = text(tok());
  s.opRange = tok().range();
  s.kind = m_.registry->find(s.opName);
  if (s.kind == kNoOpKind) {
    if (!atName() && !atDotted()) return unexpected("an op");
    if (!unknownOps_.insert(std::string(s.opName)).second) return false; // reported once
    std::vector<std::string_view> known;
    for (size_t k = 0; k < m_.registry->size(); ++k)
      known.emplace_back((*m_.registry)[static_cast<OpKind>(k)].name);
    return error(kUnknownOp, s.opRange, s.opName, suggestion(Vocabulary::Op, s.opName, known));
  }
  s.record = &(*m_.registry)[s.kind];
  ++in_.pos;
  return true;
}

bool StatementParser::callStatement(BlockId id, Statement& s) {
  std::optional<std::vector<TypeId>> types;
  if (!inference_.callResults(s, types)) return false;
  if (!types) return scope_.definePoisoned(s.names);
  OpId op = makeOp(id, s, 0);
  if (!setResults(s, op, *types)) return false;
  m_[id].ops.push_back(op);
  return true;
}

bool StatementParser::regionStatement(BlockId id, Statement& s) {
  if (s.record->regions == RegionKind::Cond) {
    if (s.operands.size() != 1) return error(kCondOperand, s.opRange);
    if (!inference_.typeLiteral(s.operands[0].value, DType::Bool)) return false;
  }
  std::vector<TypeInference::Argument> arguments;
  size_t before = diags_.numErrors();
  bool bindsFit = inference_.blockArguments(s, arguments);
  OpId op = makeOp(id, s, numBlocks(s.record->regions));
  if (!regionBlocks(s, op, arguments) || !resultTypes(s)) return false;
  bool unknown = anyPoisoned(m_, s);
  for (uint32_t r = 0; r < m_[op].numRegions; ++r)
    for (ValueId v : m_[m_.region(op, r)].yields) unknown |= isPoisoned(m_, v);
  if (!bindsFit || diags_.numErrors() != before || unknown) return scope_.definePoisoned(s.names);
  OpQuery q = queryOf(m_, op, diags_);
  std::vector<TypeId> types;
  if (!checkAttrs(q) || !inference_.typeYields(s, op) || !inference_.regionResults(s, op, types) ||
      !setResults(s, op, types))
    return false;
  m_[id].ops.push_back(op);
  return true;
}

bool StatementParser::regionBlocks(const Statement& s, OpId op,
                                   const std::vector<TypeInference::Argument>& arguments) {
  RegionKind kind = s.record->regions;
  MeshId outerMesh = types_.localMesh;
  if (kind == RegionKind::Local) types_.localMesh = inference_.meshOfBinds(s);
  bool ok = true;
  for (uint32_t r = 0; ok && r < m_[op].numRegions; ++r) {
    BlockId b = m_.region(op, r);
    const ValueScope::Mark mark = scope_.enter(isIsolated(kind));
    if (kind == RegionKind::For) {
      ValueId index =
          m_.makeBlockArg(b, m_.tensorType(DType::I32, std::initializer_list<int64_t>{}), s.loopIndex.name);
      m_[index].loc = s.loopIndex.range;
      scope_.define(s.loopIndex, index);
    }
    for (size_t i = 0; i < s.binds.size(); ++i) {
      ValueId arg = m_.makeBlockArg(b, arguments[i].type, s.binds[i].name.name);
      m_[arg].loc = s.binds[i].name.range;
      m_[arg].sharding = arguments[i].sharding;
      scope_.define(s.binds[i].name, arg);
    }
    ok = at(Tok::LBrace)                          ? (block(b, false), true)
         : r > 0 && mistakes_.blockHint().empty() ? error(kSecondBlock, s.opRange, s.opName)
                                                  : unexpected("'{' and a block", mistakes_.blockHint());
    scope_.leave(mark);
  }
  types_.localMesh = outerMesh;
  return ok;
}

// --- operands ---

bool StatementParser::atOperand(const Statement& s) const {
  if (atNextStatement()) return false;
  if (at(Tok::Value) || atLiteral()) return true;
  // A size by name; on a new line it may also be the next op.
  return atName() && operandArity(*s.record).max > 0 &&
         (operandArity(*s.record).min > 0 || !tok().firstOnLine);
}

bool StatementParser::operands(BlockId id, Statement& s) {
  if (at(Tok::Broken)) return false;
  if (at(Tok::LParen) || (at(Tok::LBracket) && !tok().firstOnLine)) return mistakes_.operandsInParentheses(s);
  if (!atOperand(s)) return true;
  if (!operandList(id, s.operands)) return false;
  s.kind = m_.registry->find(s.opName, s.operands.size());
  s.record = &(*m_.registry)[s.kind];
  return true;
}

bool StatementParser::operandList(BlockId id, std::vector<ParsedOperand>& out) {
  do
    if (atNextStatement())
      return mistakes_.missingBefore("a value or a number");
    else if (!operand(id, out.emplace_back())) {
      out.pop_back();
      return false;
    }
  while (accept(Tok::Comma) || mistakes_.commaMissing());
  return !mistakes_.misplacedAttributes();
}

bool StatementParser::valueOperand(BlockId id, ParsedOperand& out) {
  size_t first = in_.pos;
  ParsedName name{m_.strings.intern(text(tok()).substr(1)), tok().range()};
  out.value = scope_.find(name.name);
  if (!out.value.valid()) {
    std::string_view word = m_.strings[name.name];
    error(kUnknownValue, name.range, word,
          scope_.isOutside(name.name)
              ? "; this block sees only its own arguments: bind it, as in '(%p = %" + std::string(word) + ")'"
              : suggestion(Vocabulary::Plain, word, scope_.visible(), "%"));
    scope_.definePoisoned({name}); // reported once
    out.value = scope_.find(name.name);
  }
  ++in_.pos;
  out.range = since(first);
  while (at(Tok::LBracket) && (at(Tok::Value, 1) || at(Tok::Int, 1)))
    if (!indexed(id, out)) return false;
  return true;
}

bool StatementParser::operand(BlockId id, ParsedOperand& out) {
  if (at(Tok::Value)) return valueOperand(id, out);
  size_t first = in_.pos;
  if (atName() && !in_.snippet)
    if (StrId name = m_.strings.find(text(tok())); name.valid() && scope_.find(name).valid())
      return error(kNoPercent, tok().range(), text(tok()));
  if (mistakes_.dtypeAsOperand()) return false;
  bool sized = (at(Tok::Int) && (at(Tok::Star, 1) || at(Tok::Slash, 1))) ||
               (atName() && !(in_.snippet && atWord("none")));
  Value v;
  v.kind = ValueKind::Literal;
  if (sized) {
    if (!types_.dim(v.symbol)) return false;
    if (v.symbol.isStatic())
      v.literal = m_.attrs.integer(v.symbol.value());
    else
      v.kind = ValueKind::Symbol;
  } else if (atLiteral()) {
    Attr a;
    if (!literal(a)) return false;
    v.literal = m_.attrs.intern(std::move(a));
  } else if (in_.snippet && acceptWord("none")) {
    out = {};
    return true;
  } else {
    return unexpected("a value or a number", mistakes_.operandHint());
  }
  out.range = v.loc = since(first);
  out.value = ValueId(static_cast<uint32_t>(m_.values.size()));
  m_.values.push_back(v);
  return true;
}

// `%x[%i]` is index_select %x, %i {dim = 0}; `out` is %x on entry and the result of that op on exit.
bool StatementParser::indexed(BlockId id, ParsedOperand& out) {
  size_t open = in_.pos++;
  Statement s;
  s.opName = "index_select";
  s.kind = m_.registry->find(s.opName);
  if (s.kind == kNoOpKind) return error(kNoIndexOp, tokens()[open].range());
  s.record = &(*m_.registry)[s.kind];
  s.opRange = out.range;
  s.operands.push_back(out);
  if (!operand(id, s.operands.emplace_back()) || !expect(Tok::RBracket, "']'")) return false;
  out.range.end = tokens()[in_.pos - 1].end;
  m_.values.emplace_back().kind = ValueKind::BlockArg; // poisoned
  out.value = ValueId(static_cast<uint32_t>(m_.values.size() - 1));
  if (anyPoisoned(m_, s)) return true;
  if (!inference_.typeOperands(s)) return false;
  s.attrList.push_back({m_.strings.intern("dim"), m_.attrs.integer(0)});
  OpId op = makeOp(id, s, 0);
  std::vector<TypeId> types;
  if (!inferred(s, op, types) || types.size() != 1) return false;
  addResults(op, 1);
  out.value = m_.result(op);
  m_[out.value].type = types[0];
  m_[out.value].loc = out.range;
  m_[id].ops.push_back(op);
  return true;
}

bool StatementParser::calleeOperands(BlockId id, Statement& s) {
  if (!expectName(Tok::Symbol, "the function to call, such as '@f'", s.callee)) return false;
  if (!expect(Tok::LParen, "'(' and the arguments")) return false;
  if (accept(Tok::RParen)) return true;
  return operandList(id, s.operands) && expect(Tok::RParen, "',' or ')'");
}

bool StatementParser::loopBounds(BlockId id, Statement& s) {
  if (!expectName(Tok::Value, "the loop's index, as in 'for %i in 0..8'", s.loopIndex)) return false;
  if (!acceptWord("in")) return unexpected("'in' and the loop's bounds");
  return bound(id, s.operands.emplace_back()) && expect(Tok::DotDot, "'..' and the upper bound") &&
         bound(id, s.operands.emplace_back());
}

bool StatementParser::bound(BlockId id, ParsedOperand& out) {
  if (!at(Tok::Int) && !at(Tok::Value) && !atName())
    return unexpected("a bound: a number, a size or a value");
  if (atWord("range") && at(Tok::LParen, 1))
    return unexpected("the loop's bounds", ": write '0..N', as in 'for %i in 0..8'");
  return operand(id, out) && inference_.typeLiteral(out.value, DType::I32);
}

bool StatementParser::binds(BlockId id, Statement& s) {
  if (!expect(Tok::LParen, "'(' and the arguments of the block")) return false;
  return commaList(Tok::RParen, "')'", [&] {
    ParsedBind b;
    if (!expectName(Tok::Value, "a value's name, as in '%x = %start'", b.name)) return false;
    if (!expect(Tok::Equal, "'=' and an initial value") || !operand(id, b.start)) return false;
    if (accept(Tok::Colon) && !types_.type(b.type)) return false;
    if (atSharding() && !types_.sharding(b.sharding)) return false;
    s.binds.push_back(std::move(b));
    return true;
  });
}

// --- results ---

// ": f32[2] @m{dp}, @m{_}, f32[3]"
bool StatementParser::resultTypes(Statement& s) {
  if (!at(Tok::Colon)) return true;
  size_t first = ++in_.pos;
  do {
    if (atNextStatement()) return mistakes_.missingBefore("a type, such as 'f32[2, 3]'");
    ParsedResult& r = s.results.emplace_back();
    bool sharded = atSharding();
    if (!sharded && !types_.type(r.type)) return false;
    if (atSharding() && !types_.sharding(r.sharding)) return false;
  } while (accept(Tok::Comma));
  s.resultsRange = since(first);
  return true;
}

OpId StatementParser::makeOp(BlockId parent, const Statement& s, uint32_t regions) {
  std::vector<ValueId> operands;
  operands.reserve(s.operands.size() + s.binds.size());
  for (const ParsedOperand& o : s.operands) operands.push_back(o.value);
  for (const ParsedBind& b : s.binds) operands.push_back(b.start.value);
  OpId op = m_.makeOp(s.kind, operands, 0, s.attrList, regions, s.opRange);
  m_[op].parent = parent;
  m_[op].callee = s.callee.name;
  for (uint32_t r = 0; r < regions; ++r) m_[m_.region(op, r)].parentFunc = func_;
  return op;
}

bool StatementParser::inferred(const Statement& s, OpId op, std::vector<TypeId>& types) {
  std::vector<TypeId> operandTypes, written;
  std::vector<SourceRange> ranges;
  for (const ParsedOperand& o : s.operands) {
    operandTypes.push_back(m_[o.value].type);
    ranges.push_back(o.range);
  }
  for (const ParsedResult& r : s.results) written.push_back(r.type.id);
  if (std::any_of(written.begin(), written.end(), [](TypeId t) { return !t.valid(); })) written.clear();
  OpQuery q;
  q.module = &m_;
  q.record = s.record;
  q.operandTypes = operandTypes;
  q.operands = m_.operands(op);
  q.attrs = &m_[op].attrs;
  q.writtenTypes = written;
  q.loc = s.opRange;
  q.operandLocs = ranges;
  q.mesh = types_.localMesh;
  q.diags = &diags_;
  return inferResultTypes(q, types);
}

// Creates the op's results; the op must have none yet, so that their ids are consecutive.
void StatementParser::addResults(OpId op, uint32_t count) {
  m_[op].firstResult = ValueId(static_cast<uint32_t>(m_.values.size()));
  m_[op].numResults = count;
  for (uint32_t i = 0; i < count; ++i) {
    Value& v = m_.values.emplace_back();
    v.owner = op.index;
    v.position = i;
  }
}

bool StatementParser::checkWritten(const Statement& s, size_t i, TypeId type) {
  const ParsedType& written = s.results[i].type;
  if (!written.id.valid() || !type.valid() || written.id == type) return true;
  return error(kResultType, written.range, s.opName, printType(m_, type), printType(m_, written.id));
}

bool StatementParser::setResults(const Statement& s, OpId op, const std::vector<TypeId>& types) {
  size_t n = types.size();
  if (s.names.empty() && n > 0) return error(kResultNeedsName, s.opRange, s.opName, counted(n, "result"));
  if (s.names.size() != n) {
    SourceRange names{s.names.front().range.begin, s.names.back().range.end};
    return error(kResultCount, names, s.opName, counted(n, "result"), areGiven(s.names.size(), "name"));
  }
  if (!s.results.empty() && s.results.size() != n)
    return error(kWrittenCount, s.resultsRange, s.opName, counted(n, "result"),
                 areGiven(s.results.size(), "type"));
  addResults(op, static_cast<uint32_t>(n));
  bool ok = true;
  for (size_t i = 0; i < n; ++i) {
    ValueId v = m_.result(op, i);
    ShardingId sharding;
    bool fits = s.results.empty() || (checkWritten(s, i, types[i]) &&
                                      types_.finishSharding(s.results[i].sharding, types[i], sharding));
    ok &= fits;
    m_[v].type = types[i];
    m_[v].sharding = sharding;
    m_[v].name = s.names[i].name;
    m_[v].loc = s.names[i].range;
    ok &= scope_.define(s.names[i], v);
  }
  return ok;
}

} // namespace dtc
