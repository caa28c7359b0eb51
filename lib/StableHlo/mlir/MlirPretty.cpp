#include "mlir/MlirPretty.h"

namespace dtc {

static bool isReturn(std::string_view name) { return name == "return" || name.ends_with(".return"); }

// Ops whose bracketed parts are Shardy's own and are kept as text.
static bool isShardy(const MlirOp& op) { return op.name.starts_with("sdy.") && op.name != "sdy.constant"; }

bool PrettyOp::parse() {
  op_.nameRange = p_.tok().range();
  op_.name = p_.take().text;
  bool ended = false;
  while (!ended)
    if (!item(ended)) return false;
  for (const MlirUse& u : inits_) op_.operands.push_back(u);
  if (op_.numResults() > 0 && !p_.tok().is(':')) return p_.unexpected("':' and the op's types");
  if (!p_.signature(op_, this)) return false;
  normalizePretty(op_);
  return true;
}

bool PrettyOp::item(bool& ended) {
  switch (p_.tok().kind) {
  case MlirTok::Value: {
    if (p_.second().is('=')) { // the next op
      ended = true;
      return true;
    }
    if (!p_.use(op_.operands.emplace_back())) return false;
    p_.accept(',');
    return true;
  }
  case MlirTok::Word: return word() || ((ended = true) && !p_.failed());
  case MlirTok::Symbol:
    if (!value(op_.items.emplace_back())) return false;
    if (p_.accept('=')) return value(op_.items.emplace_back()); // sdy.mesh @m = <[…]>
    p_.accept(',');
    return true;
  case MlirTok::String:
    if (p_.second().is('(')) { // the next op, in generic form
      ended = true;
      return true;
    }
    [[fallthrough]];
  case MlirTok::Int:
  case MlirTok::Float:
  case MlirTok::Hash:
    if (!value(op_.items.emplace_back())) return false;
    p_.accept(',');
    return true;
  case MlirTok::Punct: break;
  default: ended = true; return true;
  }
  if (p_.tok().is('(')) return parenthesized();
  if (p_.tok().is('{')) return braces();
  if (p_.tok().is('<') && p_.second().is('{')) {
    p_.take();
    return p_.dictionary(op_.attrs) && p_.expect('>');
  }
  if (p_.tok().is('<') || p_.tok().is('[')) {
    if (!value(op_.items.emplace_back())) return false;
    p_.accept(',');
    return true;
  }
  ended = true;
  return true;
}

bool PrettyOp::word() {
  std::string_view w = p_.tok().text;
  MlirToken after = p_.second();
  if (after.is('=')) {
    MlirNamedAttr& a = op_.attrs.emplace_back();
    a.nameRange = p_.tok().range();
    a.name = w;
    p_.take();
    p_.take();
    if (!p_.countNode() || !value(a.value)) return false;
    p_.accept(',');
    return true;
  }
  if (w == "loc" && after.is('(')) return false;
  if (w == "attributes" && after.is('{')) {
    p_.take();
    return p_.dictionary(op_.attrs);
  }
  if (w == "applies") {
    p_.take();
    reducerRange_ = p_.tok().range();
    if (p_.tok().kind != MlirTok::Word) return p_.unexpected("the applied op");
    reducer_ = p_.take().text;
    return true;
  }
  if (w.find('.') != std::string_view::npos || w == "func" || w == "return" || w == "call") return false;
  if (w == "across") {
    p_.take();
    return true;
  }
  if (!p_.countNode() || !value(op_.items.emplace_back())) return false;
  p_.accept(',');
  return true;
}

// The value after `name =`, or an unnamed one: an attribute, or a form that exists only in pretty text.
bool PrettyOp::value(MlirAttr& out) {
  uint32_t begin = p_.tok().begin;
  bool ok = false;
  if (p_.tok().is('<') || (isShardy(op_) && (p_.tok().is('[') || p_.tok().is('{'))))
    ok = raw(out);
  else if (p_.tok().is('['))
    ok = bracketList(out);
  else if (p_.tok().is('{')) // window = {stride = [1, 1]}
    ok = (out.kind = MlirAttr::Dict, p_.dictionary(out.dict));
  else
    ok = p_.attribute(out, false);
  if (ok) out.range = p_.since(begin);
  return ok;
}

bool PrettyOp::raw(MlirAttr& out) {
  out.kind = MlirAttr::Raw;
  uint32_t begin = p_.tok().begin;
  if (!p_.bodyOf(out.body)) return false;
  out.text = p_.textSince(begin);
  return true;
}

// "[0, 1]", "[0:2, 1:5:2]", "[[0, 1], [1, 0]]", "[0] x [1]", "[b, 0, f]x[0, i, o]->[b, 0, f]"
bool PrettyOp::bracketList(MlirAttr& out) {
  uint32_t begin = p_.tok().begin;
  out.kind = MlirAttr::List;
  if (!p_.countNode() || !p_.expect('[')) return false;
  while (!p_.accept(']')) {
    MlirAttr& e = out.list.emplace_back();
    if (!p_.attribute(e, false)) return false;
    if (p_.tok().is(':')) {
      MlirAttr range;
      range.kind = MlirAttr::List;
      range.range = e.range;
      range.list.push_back(std::move(e));
      while (p_.accept(':'))
        if (!p_.attribute(range.list.emplace_back(), false)) return false;
      out.list.back() = std::move(range);
    }
    if (!p_.tok().is(']') && !p_.expect(',')) return false;
  }
  if (!p_.tok().isWord("x") || !p_.second().is('[')) return true;
  MlirAttr both;
  both.kind = MlirAttr::List;
  both.list.push_back(std::move(out));
  p_.take();
  if (!bracketList(both.list.emplace_back())) return false;
  if (p_.tok().kind == MlirTok::Arrow) {
    p_.take();
    if (!bracketList(both.list.emplace_back())) return false;
    both.kind = MlirAttr::Raw; // as the body of #stablehlo.conv<…>
    both.text = both.body = p_.textSince(begin);
    both.list.clear();
  }
  out = std::move(both);
  return true;
}

// --- parentheses: operands, arguments of regions ---

bool PrettyOp::parenthesized() {
  p_.take();
  while (!p_.accept(')')) {
    if (!parenthesizedItem()) return false;
    if (!p_.tok().is(')') && !p_.expect(',')) return false;
  }
  p_.accept(',');
  return true;
}

// "%a", "%a = %b", "%a init: %b", "%a: t", "k = 8"
bool PrettyOp::parenthesizedItem() {
  if (p_.tok().kind == MlirTok::Word && p_.second().is('=')) {
    MlirNamedAttr& a = op_.attrs.emplace_back();
    a.nameRange = p_.tok().range();
    a.name = p_.take().text;
    p_.take();
    return p_.countNode() && value(a.value);
  }
  MlirUse first;
  if (!p_.use(first)) return false;
  if (p_.accept('=')) {
    MlirArg& arg = pending_.emplace_back();
    arg.name = first.name;
    arg.range = first.range;
    return p_.use(op_.operands.emplace_back());
  }
  if (p_.accept(':')) {
    MlirArg& arg = pending_.emplace_back();
    arg.name = first.name;
    arg.range = first.range;
    arg.type = p_.type();
    return arg.type && (!p_.tok().isWord("loc") || p_.location(arg.loc));
  }
  op_.operands.push_back(first);
  if (!p_.acceptWord("init")) return true;
  ++starts_;
  return p_.expect(':') && p_.use(inits_.emplace_back());
}

// --- braces: attributes or a region ---

bool PrettyOp::isDictionary() const {
  MlirLexer ahead = p_.ahead();
  ahead.next();
  if (ahead.peek().is('}')) return true;
  MlirTok first = ahead.peek().kind;
  if (first != MlirTok::Word && first != MlirTok::String) return false;
  std::string_view name = ahead.peek().text;
  ahead.next();
  return ahead.peek().is('=') || ahead.peek().is(',') || (ahead.peek().is('}') && !isReturn(name));
}

bool PrettyOp::braces() {
  bool named = !pending_.empty();
  if (!named && isShardy(op_) && p_.second().kind == MlirTok::String) {
    MlirLexer ahead = p_.ahead();
    ahead.next();
    ahead.next();
    if (!ahead.peek().is('=')) return value(op_.items.emplace_back());
  }
  if (!named && isDictionary()) return p_.dictionary(op_.attrs);
  return region();
}

bool PrettyOp::region() {
  MlirRegion region;
  region.args = pending_;
  if (!p_.region(region)) return false;
  op_.regions.push_back(std::move(region));
  return true;
}

// --- what follows the types ---

bool PrettyOp::afterSignature() {
  if (!reducer_.empty()) return shortReducer();
  if (starts_ > 0 && p_.acceptWord("reducer")) return reducerArgs() && region();
  bool loop = op_.name.ends_with(".while");
  if (!loop) return true;
  if (pending_.size() != op_.operandTypes.size())
    return p_.fail(op_.nameRange, "'while' needs one type per value");
  for (size_t i = 0; i < pending_.size(); ++i) pending_[i].type = op_.operandTypes[i];
  if (p_.acceptWord("attributes") && !p_.dictionary(op_.attrs)) return false;
  return p_.expectWord("cond") && region() && p_.expectWord("do") && region();
}

// "reducer(%a: t, %b: t) (%c: u, %d: u)": one pair per operand; the region's arguments are all first ones,
// then all second ones.
bool PrettyOp::reducerArgs() {
  pending_.clear();
  while (p_.tok().is('('))
    if (!parenthesized()) return false;
  std::vector<MlirArg> ordered;
  for (size_t first : {0, 1})
    for (size_t i = first; i < pending_.size(); i += 2) ordered.push_back(pending_[i]);
  pending_ = std::move(ordered);
  return true;
}

// `applies stablehlo.add`: builds the equivalent region.
bool PrettyOp::shortReducer() {
  if (starts_ != 1 || op_.operandTypes.size() != 2)
    return p_.fail(reducerRange_, "'applies' takes one operand and its initial value");
  const MlirType* scalar = op_.operandTypes[1];
  MlirRegion& r = op_.regions.emplace_back();
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
