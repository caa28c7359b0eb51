// Pretty forms. One grammar covers all ops: between an op's name and its types there is a sequence of items
// (values, words, lists, `name = attribute`, parentheses, regions), which normalizePretty then names.
#include "mlir/MlirParser.h"

namespace dtc {

static bool isReturn(std::string_view name) { return name == "return" || name.ends_with(".return"); }

// Ops whose bracketed parts are Shardy's own and are kept as text.
static bool isShardy(const MlirOp& op) { return op.name.starts_with("sdy.") && op.name != "sdy.constant"; }

bool MlirParser::prettyOp(MlirOp& op) {
  op.nameRange = tok().range();
  op.name = take().text;
  pending_.clear();
  inits_.clear();
  starts_ = 0;
  reducer_ = {};
  bool ended = false;
  while (!ended)
    if (!prettyItem(op, ended)) return false;
  for (const MlirUse& u : inits_) op.operands.push_back(u);
  if (op.numResults() > 0 && !tok().is(':')) return unexpected("':' and the op's types");
  if (!signature(op, false)) return false;
  normalizePretty(op);
  return true;
}

bool MlirParser::prettyItem(MlirOp& op, bool& ended) {
  switch (tok().kind) {
  case MlirTok::Value: {
    if (lex_.second().is('=')) { // the next op
      ended = true;
      return true;
    }
    if (!use(op.operands.emplace_back())) return false;
    accept(',');
    return true;
  }
  case MlirTok::Word: return prettyWord(op) || ((ended = true) && !diags_.hasErrors());
  case MlirTok::Symbol:
    if (!prettyValue(op, op.items.emplace_back())) return false;
    if (accept('=')) return prettyValue(op, op.items.emplace_back()); // sdy.mesh @m = <[…]>
    accept(',');
    return true;
  case MlirTok::String:
    if (lex_.second().is('(')) { // the next op, in generic form
      ended = true;
      return true;
    }
    [[fallthrough]];
  case MlirTok::Int:
  case MlirTok::Float:
  case MlirTok::Hash:
    if (!prettyValue(op, op.items.emplace_back())) return false;
    accept(',');
    return true;
  case MlirTok::Punct: break;
  default: ended = true; return true;
  }
  if (tok().is('(')) return parenthesised(op);
  if (tok().is('{')) return braces(op);
  if (tok().is('<') && lex_.second().is('{')) {
    take();
    return dictionary(op.attrs) && expect('>');
  }
  if (tok().is('<') || tok().is('[')) {
    if (!prettyValue(op, op.items.emplace_back())) return false;
    accept(',');
    return true;
  }
  ended = true;
  return true;
}

// `dims = [0]`, `LT`, `applies stablehlo.add`, `dense<0>`. False without a report where the word begins
// another op.
bool MlirParser::prettyWord(MlirOp& op) {
  std::string_view w = tok().text;
  MlirToken after = lex_.second();
  if (after.is('=')) {
    MlirNamedAttr& a = op.attrs.emplace_back();
    a.nameRange = tok().range();
    a.name = w;
    take();
    take();
    if (!countNode() || !prettyValue(op, a.value)) return false;
    accept(',');
    return true;
  }
  if (w == "loc" && after.is('(')) return false;
  if (w == "attributes" && after.is('{')) {
    take();
    return dictionary(op.attrs);
  }
  if (w == "applies") {
    take();
    reducerRange_ = tok().range();
    if (tok().kind != MlirTok::Word) return unexpected("the applied op");
    reducer_ = take().text;
    return true;
  }
  if (w.find('.') != std::string_view::npos || w == "func" || w == "return" || w == "call") return false;
  if (w == "across") {
    take();
    return true;
  }
  if (!countNode() || !prettyValue(op, op.items.emplace_back())) return false;
  accept(',');
  return true;
}

// The value after `name =`, or an unnamed one: an attribute, or a form that exists only in pretty text.
bool MlirParser::prettyValue(const MlirOp& op, MlirAttr& out) {
  uint32_t begin = tok().begin;
  bool ok = false;
  if (tok().is('<') || (isShardy(op) && (tok().is('[') || tok().is('{'))))
    ok = raw(out);
  else if (tok().is('['))
    ok = bracketList(out);
  else if (tok().is('{')) // window = {stride = [1, 1]}
    ok = (out.kind = MlirAttr::Dict, dictionary(out.dict));
  else
    ok = attribute(out, false);
  if (ok) out.range = since(begin);
  return ok;
}

bool MlirParser::raw(MlirAttr& out) {
  out.kind = MlirAttr::Raw;
  uint32_t begin = tok().begin;
  if (!bodyOf(out.body)) return false;
  out.text = lex_.between(begin, lastEnd_);
  return true;
}

// "[0, 1]", "[0:2, 1:5:2]", "[[0, 1], [1, 0]]", "[0] x [1]", "[b, 0, f]x[0, i, o]->[b, 0, f]"
bool MlirParser::bracketList(MlirAttr& out) {
  uint32_t begin = tok().begin;
  out.kind = MlirAttr::List;
  if (!countNode() || !expect('[')) return false;
  while (!accept(']')) {
    MlirAttr& e = out.list.emplace_back();
    if (!attribute(e, false)) return false;
    if (tok().is(':')) {
      MlirAttr range;
      range.kind = MlirAttr::List;
      range.range = e.range;
      range.list.push_back(std::move(e));
      while (accept(':'))
        if (!attribute(range.list.emplace_back(), false)) return false;
      out.list.back() = std::move(range);
    }
    if (!tok().is(']') && !expect(',')) return false;
  }
  if (!tok().isWord("x") || !lex_.second().is('[')) return true;
  MlirAttr both;
  both.kind = MlirAttr::List;
  both.list.push_back(std::move(out));
  take();
  if (!bracketList(both.list.emplace_back())) return false;
  if (tok().kind == MlirTok::Arrow) {
    take();
    if (!bracketList(both.list.emplace_back())) return false;
    both.kind = MlirAttr::Raw; // as the body of #stablehlo.conv<…>
    both.text = both.body = lex_.between(begin, lastEnd_);
    both.list.clear();
  }
  out = std::move(both);
  return true;
}

// --- parentheses: operands, arguments of regions ---

bool MlirParser::parenthesised(MlirOp& op) {
  take();
  while (!accept(')')) {
    if (!parenthesisedItem(op)) return false;
    if (!tok().is(')') && !expect(',')) return false;
  }
  accept(',');
  return true;
}

// "%a", "%a = %b", "%a init: %b", "%a: t", "k = 8"
bool MlirParser::parenthesisedItem(MlirOp& op) {
  if (tok().kind == MlirTok::Word && lex_.second().is('=')) {
    MlirNamedAttr& a = op.attrs.emplace_back();
    a.nameRange = tok().range();
    a.name = take().text;
    take();
    return countNode() && prettyValue(op, a.value);
  }
  MlirUse first;
  if (!use(first)) return false;
  if (accept('=')) {
    MlirArg& arg = pending_.emplace_back();
    arg.name = first.name;
    arg.range = first.range;
    return use(op.operands.emplace_back());
  }
  if (accept(':')) {
    MlirArg& arg = pending_.emplace_back();
    arg.name = first.name;
    arg.range = first.range;
    arg.type = type();
    return arg.type && (!tok().isWord("loc") || location(arg.loc));
  }
  op.operands.push_back(first);
  if (!acceptWord("init")) return true;
  ++starts_;
  return expect(':') && use(inits_.emplace_back());
}

// --- braces: attributes or a region ---

bool MlirParser::isDictionary() const {
  MlirLexer ahead = lex_;
  ahead.next();
  if (ahead.peek().is('}')) return true;
  MlirTok first = ahead.peek().kind;
  if (first != MlirTok::Word && first != MlirTok::String) return false;
  std::string_view name = ahead.peek().text;
  ahead.next();
  return ahead.peek().is('=') || ahead.peek().is(',') || (ahead.peek().is('}') && !isReturn(name));
}

bool MlirParser::braces(MlirOp& op) {
  bool named = !pending_.empty();
  if (!named && isShardy(op) && lex_.second().kind == MlirTok::String) {
    MlirLexer ahead = lex_;
    ahead.next();
    ahead.next();
    if (!ahead.peek().is('=')) return prettyValue(op, op.items.emplace_back());
  }
  if (!named && isDictionary()) return dictionary(op.attrs);
  return prettyRegion(op);
}

bool MlirParser::prettyRegion(MlirOp& op) {
  // The region's ops are pretty too: the state of this op is saved first.
  MlirRegion region;
  region.args = pending_;
  auto pending = std::move(pending_);
  auto inits = std::move(inits_);
  auto reducer = reducer_;
  size_t starts = starts_;
  if (!this->region(region)) return false;
  op.regions.push_back(std::move(region));
  pending_ = std::move(pending);
  inits_ = std::move(inits);
  reducer_ = reducer;
  starts_ = starts;
  return true;
}

// --- what follows the types ---

bool MlirParser::afterSignature(MlirOp& op) {
  if (!reducer_.empty()) return shortReducer(op);
  if (starts_ > 0 && acceptWord("reducer")) return reducerArgs(op) && prettyRegion(op);
  bool loop = op.name.ends_with(".while");
  if (!loop) return true;
  if (pending_.size() != op.operandTypes.size())
    return diags_.fail(kMlirText, op.nameRange, "'while' needs one type per value");
  for (size_t i = 0; i < pending_.size(); ++i) pending_[i].type = op.operandTypes[i];
  if (acceptWord("attributes") && !dictionary(op.attrs)) return false;
  return expectWord("cond") && prettyRegion(op) && expectWord("do") && prettyRegion(op);
}

// "reducer(%a: t, %b: t) (%c: u, %d: u)": one pair per operand; the region's arguments are all first ones,
// then all second ones.
bool MlirParser::reducerArgs(MlirOp& op) {
  pending_.clear();
  while (tok().is('('))
    if (!parenthesised(op)) return false;
  std::vector<MlirArg> ordered;
  for (size_t first : {0, 1})
    for (size_t i = first; i < pending_.size(); i += 2) ordered.push_back(pending_[i]);
  pending_ = std::move(ordered);
  return true;
}

// `applies stablehlo.add`: builds the equivalent region.
bool MlirParser::shortReducer(MlirOp& op) {
  if (starts_ != 1 || op.operandTypes.size() != 2)
    return diags_.fail(kMlirText, reducerRange_, "'applies' takes one operand and its initial value");
  const MlirType* scalar = op.operandTypes[1];
  MlirRegion& r = op.regions.emplace_back();
  r.range = reducerRange_;
  MlirOp inner, last;
  inner.name = reducer_;
  inner.nameRange = reducerRange_;
  inner.results.push_back({"applied", 1, reducerRange_});
  inner.resultTypes.push_back(scalar);
  for (std::string_view name : {"first", "second"}) {
    MlirArg& arg = r.args.emplace_back();
    arg.name = name;
    arg.range = reducerRange_;
    arg.type = scalar;
    inner.operands.push_back({name, 0, reducerRange_});
    inner.operandTypes.push_back(scalar);
  }
  last.name = "stablehlo.return";
  last.nameRange = reducerRange_;
  last.operands.push_back({"applied", 0, reducerRange_});
  last.operandTypes.push_back(scalar);
  r.ops.push_back(std::move(inner));
  r.ops.push_back(std::move(last));
  return true;
}

} // namespace dtc
