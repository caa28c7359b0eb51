// Blocks and statements.
#include "Parser.h"
#include "dtc/Support/Counted.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kUnknownOp{"unknown-op", "unknown op '{0}'{1}"};
constexpr DiagKind kUnknownValue{"unknown-value", "unknown value %{0}{1}"};
constexpr DiagKind kNoPercent{"value-name", "'{0}' is the name of a size; the value is %{0}"};
constexpr DiagKind kNoIndexOp{"no-index-op", "'%x[%i]' needs the op index_select"};
constexpr DiagKind kResultCount{"result-count", "'{0}' has {1}, but {2} before it"};
constexpr DiagKind kResultNeedsName{"result-needs-name", "'{0}' has {1}: name it, as in '%y = {0} …'"};
constexpr DiagKind kWrittenCount{"result-count", "'{0}' has {1}, but {2} written after it"};
constexpr DiagKind kResultType{"result-type", "'{0}' gives {1}, but {2} is written"};
constexpr DiagKind kTerminator{"wrong-terminator", "a {0} ends with '{1}', not with '{2}'"};

} // namespace

// --- blocks ---

bool Parser::block(BlockId id, bool isFunction) {
  if (!at(Tok::LBrace)) return unexpected("'{' and a block");
  size_t outerEnd = blockEnd_;
  blockEnd_ = std::max<size_t>(tok().match, pos_ + 1);
  ++pos_;
  bool ended = false;
  while (!ended && pos_ < blockEnd_ && !diags_.full()) {
    if (atWord("return") || atWord("yield") || mistypedTerminator(isFunction)) {
      terminator(id, isFunction);
      ended = true;
    } else {
      statement(id);
    }
  }
  if (pos_ < blockEnd_ && !diags_.full())
    unexpected("'}' after the " + std::string(isFunction ? "function's results" : "yield"));
  else if (!ended && !diags_.full())
    unexpected(isFunction ? "'return' and the function's results" : "'yield' and the block's results");
  pos_ = blockEnd_;
  accept(Tok::RBrace);
  blockEnd_ = outerEnd;
  return ended;
}

bool Parser::terminator(BlockId id, bool isFunction) {
  std::string_view word = text(tok()), wanted = isFunction ? "return" : "yield";
  if (word != wanted && keywordAt(pos_).empty())
    error(kTerminator, tok().range(), isFunction ? "function" : "block", wanted, word);
  size_t first = pos_++;
  std::vector<ParsedOperand> values;
  bool ok = true;
  if (pos_ < blockEnd_) ok = operandList(id, values);
  for (const ParsedOperand& v : values) m_[id].yields.push_back(v.value);
  m_[id].terminatorLoc = since(first);
  if (!ok) {
    pos_ = blockEnd_;
    return false;
  }
  return !isFunction || literalReturns(id);
}

// Literals that a function returns are of its results' dtypes.
bool Parser::literalReturns(BlockId id) {
  const std::vector<FuncResult>& results = m_[func_].results;
  const std::vector<ValueId> yields = m_[id].yields;
  for (size_t i = 0; i < yields.size() && i < results.size(); ++i)
    if (results[i].type.valid() && !typeLiteral(yields[i], m_.types[results[i].type].dtype, "")) return false;
  return true;
}

void Parser::statement(BlockId id) {
  size_t start = pos_;
  Statement s;
  if (statementBody(id, s)) return;
  definePoisoned(s.names);
  recover(start);
}

// To the next statement of this block: what begins a line and looks like one.
void Parser::recover(size_t start) {
  size_t wrong = pos_;
  for (pos_ = start, step(); pos_ < blockEnd_; step()) {
    if (pos_ < wrong || !tok().firstOnLine) continue;
    if (at(Tok::Word) || (at(Tok::Value) && (at(Tok::Equal, 1) || at(Tok::Comma, 1)))) break;
  }
  pos_ = std::min(pos_, blockEnd_);
}

// --- statements ---

bool Parser::statementBody(BlockId id, Statement& s) {
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
  if (!opAttrs(s)) return false;
  if (regions == RegionKind::None && shardingWithoutColon()) return false;
  if (regions != RegionKind::None) return regionStatement(id, s);
  if (!resultTypes(s)) return false;
  if (s.record->isCall) return callStatement(id, s);
  if (anyPoisoned(s)) {
    definePoisoned(s.names);
    return true;
  }
  if (!typeOperandLiterals(s)) return false;
  OpId op = makeOp(id, s, 0);
  std::vector<TypeId> types;
  TypeId written = s.results.empty() ? TypeId() : s.results[0].type.id;
  if (written.valid() && !typeValueAttrs(s, op, written)) return false;
  if (!inferred(s, op, types) || !giveResults(s, op, types)) return false;
  if (!written.valid() && !types.empty() && !typeValueAttrs(s, op, types[0])) return false;
  m_[id].ops.push_back(op);
  return true;
}

bool Parser::resultNames(Statement& s) {
  if (!at(Tok::Value)) return true;
  do {
    if (!at(Tok::Value)) return unexpected("the name of a result");
    s.names.push_back({m_.strings.intern(text(tok()).substr(1)), tok().range()});
    ++pos_;
  } while (accept(Tok::Comma));
  if (!at(Tok::Equal)) return noOpHere("'=' and an op");
  ++pos_;
  return true;
}

bool Parser::findRecord(Statement& s) {
  if (!at(Tok::Word) || (at(Tok::Equal, 1) && s.names.empty())) return noOpHere("an op");
  s.opName = text(tok());
  s.opRange = tok().range();
  s.kind = m_.registry->find(s.opName);
  if (s.kind == kNoOpKind) {
    if (!atName() && !atDotted()) return unexpected("an op");
    if (!unknownOps_.insert(std::string(s.opName)).second) return false; // said once
    std::vector<std::string_view> known;
    for (size_t k = 0; k < m_.registry->size(); ++k)
      known.emplace_back((*m_.registry)[static_cast<OpKind>(k)].name);
    return error(kUnknownOp, s.opRange, s.opName, suggestion(Vocabulary::Op, s.opName, known));
  }
  s.record = &(*m_.registry)[s.kind];
  ++pos_;
  return true;
}

bool Parser::atOperand(const Statement& s) const {
  if (atNextStatement()) return false;
  if (at(Tok::Value) || atLiteral()) return true;
  // A size by name; on a line of its own it may as well be the next op.
  return atName() && operandArity(*s.record).max > 0 &&
         (operandArity(*s.record).min > 0 || !tok().firstOnLine);
}

bool Parser::operands(BlockId id, Statement& s) {
  if (at(Tok::Broken)) return false;
  if (at(Tok::LParen) || (at(Tok::LBracket) && !tok().firstOnLine)) return operandsInParentheses(s);
  if (!atOperand(s)) return true;
  if (!operandList(id, s.operands)) return false;
  s.kind = m_.registry->find(s.opName, s.operands.size());
  s.record = &(*m_.registry)[s.kind];
  return true;
}

bool Parser::operandList(BlockId id, std::vector<ParsedOperand>& out) {
  do
    if (atNextStatement())
      return missingBefore("a value or a number");
    else if (!operand(id, out.emplace_back())) {
      out.pop_back();
      return false;
    }
  while (accept(Tok::Comma) || missingComma());
  return !misplacedAttributes();
}

bool Parser::operand(BlockId id, ParsedOperand& out) {
  size_t first = pos_;
  if (at(Tok::Value)) {
    std::string_view word = text(tok()).substr(1);
    StrId name = m_.strings.intern(word);
    out.value = lookup(name);
    if (!out.value.valid()) {
      error(kUnknownValue, tok().range(), word,
            isOutside(name) ? "; this block sees its own arguments alone: bind it, as in '(%p = %" +
                                  std::string(word) + ")'"
                            : suggestion(Vocabulary::Plain, word, visibleNames(), "%"));
      definePoisoned({{name, tok().range()}}); // said once
      out.value = lookup(name);
    }
    ++pos_;
    out.range = since(first);
    while (at(Tok::LBracket) && (at(Tok::Value, 1) || at(Tok::Int, 1)))
      if (!indexed(id, out)) return false;
    return true;
  }
  if (atName() && !inSnippet_)
    if (StrId name = m_.strings.find(text(tok())); name.valid() && lookup(name).valid())
      return error(kNoPercent, tok().range(), text(tok()));
  if (dtypeAsOperand()) return false;
  bool sized = (at(Tok::Int) && (at(Tok::Star, 1) || at(Tok::Slash, 1))) ||
               (atName() && !(inSnippet_ && atWord("none")));
  Value v;
  v.kind = ValueKind::Literal;
  if (sized) {
    if (!dim(v.symbol)) return false;
    if (v.symbol.isStatic())
      v.literal = m_.attrs.integer(v.symbol.value());
    else
      v.kind = ValueKind::Symbol;
  } else if (atLiteral()) {
    Attr a;
    if (!literal(a)) return false;
    v.literal = m_.attrs.intern(std::move(a));
  } else if (inSnippet_ && acceptWord("none")) {
    out = {};
    return true;
  } else {
    return unexpected("a value or a number", operandHint());
  }
  out.range = v.loc = since(first);
  out.value = ValueId(static_cast<uint32_t>(m_.values.size()));
  m_.values.push_back(v);
  return true;
}

// `%x[%i]` is index_select %x, %i {dim = 0}; `out` is %x and becomes that op's result.
bool Parser::indexed(BlockId id, ParsedOperand& out) {
  size_t open = pos_++;
  Statement s;
  s.opName = "index_select";
  s.kind = m_.registry->find(s.opName);
  if (s.kind == kNoOpKind) return error(kNoIndexOp, tokens()[open].range());
  s.record = &(*m_.registry)[s.kind];
  s.opRange = out.range;
  s.operands.push_back(out);
  if (!operand(id, s.operands.emplace_back()) || !expect(Tok::RBracket, "']'")) return false;
  out.range.end = tokens()[pos_ - 1].end;
  out.value = poison();
  if (anyPoisoned(s)) return true;
  if (!typeOperandLiterals(s)) return false;
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

ValueId Parser::poison() {
  m_.values.emplace_back().kind = ValueKind::BlockArg;
  return ValueId(static_cast<uint32_t>(m_.values.size() - 1));
}

bool Parser::anyPoisoned(const Statement& s) const {
  auto isBad = [&](const ParsedOperand& o) { return poisoned(o.value); };
  return std::any_of(s.operands.begin(), s.operands.end(), isBad) ||
         std::any_of(s.binds.begin(), s.binds.end(), [&](const ParsedBind& b) { return isBad(b.start); });
}

// --- results ---

// ": f32[2] @m{dp}, @m{_}, f32[3]"
bool Parser::resultTypes(Statement& s) {
  if (!at(Tok::Colon)) return true;
  size_t first = ++pos_;
  do {
    if (atNextStatement()) return missingBefore("a type, such as 'f32[2, 3]'");
    ParsedResult& r = s.results.emplace_back();
    bool sharded = atSharding();
    if (!sharded && !type(r.type, true)) return false;
    if (atSharding() && !sharding(r.sharding)) return false;
  } while (accept(Tok::Comma));
  s.resultsRange = since(first);
  return true;
}

OpId Parser::makeOp(BlockId parent, const Statement& s, uint32_t regions) {
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

bool Parser::inferred(const Statement& s, OpId op, std::vector<TypeId>& types) {
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
  q.mesh = localMesh_;
  q.diags = &diags_;
  return inferResultTypes(q, types);
}

// The op's results; only for an op that has none yet, so that the ids of results are consecutive.
void Parser::addResults(OpId op, uint32_t count) {
  m_[op].firstResult = ValueId(static_cast<uint32_t>(m_.values.size()));
  m_[op].numResults = count;
  for (uint32_t i = 0; i < count; ++i) {
    Value& v = m_.values.emplace_back();
    v.owner = op.index;
    v.position = i;
  }
}

bool Parser::checkWritten(const Statement& s, size_t i, TypeId type) {
  const ParsedType& written = s.results[i].type;
  if (!written.id.valid() || !type.valid() || written.id == type) return true;
  return error(kResultType, written.range, s.opName, printType(m_, type), printType(m_, written.id));
}

bool Parser::giveResults(Statement& s, OpId op, const std::vector<TypeId>& types) {
  size_t n = types.size();
  if (s.names.empty() && n > 0) return error(kResultNeedsName, s.opRange, s.opName, counted(n, "result"));
  if (s.names.size() != n) {
    SourceRange names{s.names.front().range.begin, s.names.back().range.end};
    std::string given = counted(s.names.size(), "name") + (s.names.size() == 1 ? " is" : " are");
    return error(kResultCount, names, s.opName, counted(n, "result"), given);
  }
  if (!s.results.empty() && s.results.size() != n) {
    std::string given = counted(s.results.size(), "type") + (s.results.size() == 1 ? " is" : " are");
    return error(kWrittenCount, s.resultsRange, s.opName, counted(n, "result"), given);
  }
  addResults(op, static_cast<uint32_t>(n));
  bool ok = true;
  for (size_t i = 0; i < n; ++i) {
    ValueId v = m_.result(op, i);
    ShardingId sharding;
    bool fits = s.results.empty() ||
                (checkWritten(s, i, types[i]) && finishSharding(s.results[i].sharding, types[i], sharding));
    ok &= fits;
    m_[v].type = types[i];
    m_[v].sharding = sharding;
    m_[v].name = s.names[i].name;
    m_[v].loc = s.names[i].range;
    ok &= define(s.names[i], v);
  }
  return ok;
}

} // namespace dtc
