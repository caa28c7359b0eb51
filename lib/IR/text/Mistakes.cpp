#include "text/Mistakes.h"

#include <algorithm>

namespace dtc {

constexpr DiagKind kKeyword{"unknown-keyword", "unknown keyword '{0}'{1}"};
constexpr DiagKind kNoOp{"syntax", "expected {0}, found {1}{2}"};
constexpr DiagKind kMissing{"syntax", "expected {0} after {1}, found the end of the statement"};
constexpr DiagKind kValueName{"value-name", "the name of a value begins with '%': write '%{0} = …'"};
constexpr DiagKind kParentheses{"operand-parentheses", "operands are written without {2}: {0} {1}"};
constexpr DiagKind kNested{"operand-parentheses",
                           "an operand is a value: write '%1 = {0} …' on a line before, and %1 here"};
constexpr DiagKind kBraces{"attribute-braces",
                           "attributes are written in braces after the operands: {{0} = …}"};
constexpr DiagKind kShardingColon{"syntax", "the sharding of a result is written after ':'; write ': {0}'"};
constexpr DiagKind kDTypeOperand{"value-name",
                                 "'{0}' is a dtype, not a value: write {dtype = {0}} after the operands"};

// A word before "@name" outside of all brackets is a keyword: `mseh @m = …`, `fun @main(…)`.
void Mistakes::mistypedKeywords() {
  for (in_.pos = 0; !at(Tok::End) && !diags_.full(); step()) {
    if ((!atName() && !atDotted()) || !at(Tok::Symbol, 1)) continue;
    std::string_view wanted = at(Tok::Equal, 2) ? "mesh" : at(Tok::LParen, 2) ? "func" : "";
    if (wanted.empty()) continue;
    std::string_view word = text(tok());
    std::string hint = suggestion(Vocabulary::Keyword, word, {wanted});
    diags_.error(kKeyword, tok().range(), word, hint);
    in_.mistyped[in_.pos] = wanted;
  }
}

// Reports `retrun %y` and parses it as intended.
bool Mistakes::mistypedTerminator(bool isFunction) {
  if (!atName() || m_.registry->find(text(tok())) != kNoOpKind || at(Tok::Equal, 1)) return false;
  std::string_view word = text(tok()), wanted = isFunction ? "return" : "yield";
  std::vector<std::string_view> known = {wanted};
  for (size_t k = 0; k < m_.registry->size(); ++k)
    known.emplace_back((*m_.registry)[static_cast<OpKind>(k)].name);
  std::string hint = suggestion(Vocabulary::Keyword, word, {wanted});
  if (nearestWord(word, known) != wanted && !hint.starts_with("; dtc calls it")) return false;
  error(kKeyword, tok().range(), word, hint);
  in_.mistyped[in_.pos] = wanted;
  return true;
}

// Reports a missing token at the last word of the statement, because the next statement is fine.
bool Mistakes::missingBefore(std::string_view what) {
  const Token& last = tokens()[in_.pos - 1];
  return error(kMissing, last.range(), what, found(last));
}

// Reports a token in the place of "an op" or of "'=' and an op".
bool Mistakes::noOpHere(std::string_view expected) {
  if (at(Tok::Word) && at(Tok::Equal, 1)) {
    scope_.definePoisoned({{m_.strings.intern(text(tok())), tok().range()}}); // reported once
    return error(kValueName, tok().range(), text(tok()));
  }
  if (in_.pos > 0 && tok().firstOnLine && atNextStatement()) return missingBefore(expected);
  const bool afterEqual = in_.pos > 0 && tokens()[in_.pos - 1].kind == Tok::Equal;
  std::string hint;
  if (!afterEqual && at(Tok::Colon))
    hint = "; the type of a result is written after its op, as in '%y = relu %x : f32[2]'";
  else if (at(Tok::Arrow))
    hint = "; the types of results are written after ':'";
  else if (afterEqual && at(Tok::Symbol))
    hint = "; write 'call " + std::string(text(tok())) + "(…)'";
  else if (afterEqual && at(Tok::Value) && at(Tok::LBracket, 1))
    hint = "; an index is part of an operand, as in 'relu %x[0]', or an op: index_select, slice";
  else if (afterEqual && at(Tok::Value))
    hint = "; a value is not copied: use " + std::string(text(tok())) + " itself";
  else if (afterEqual && (atLiteral() || at(Tok::LBracket)))
    hint = "; write a number as an operand, or as 'constant {value = …} : f32[2]'";
  return error(kNoOp, tok().range(), expected, found(tok()), hint);
}

// `matmul(%x, %w)`, `concat [%x, %w]`
bool Mistakes::operandsInParentheses(const Statement& s) {
  const Token& open = tok();
  const size_t first = in_.pos + 1, end = std::max<size_t>(open.match, first);
  SourceRange range{open.begin, tokens()[std::min(end, tokens().size() - 1)].end};
  if (at(Tok::Word, 1) && m_.registry->find(text(tok(1))) != kNoOpKind)
    error(kNested, range, text(tok(1)));
  else
    error(kParentheses, range, s.opName, lineText(first, end),
          open.kind == Tok::LBracket ? "brackets" : "parentheses");
  step();
  return false;
}

// `matmul %x %w`: reported, then parsed as if the comma were there.
bool Mistakes::commaMissing() {
  if (tok().firstOnLine || in_.pos >= in_.blockEnd || in_.snippet) return false;
  if (!(at(Tok::Value) && !atStatement()) && !(atLiteral() && !atWord("true") && !atWord("false")))
    return false;
  missingComma();
  return true;
}

// `convert %x, bf16`
bool Mistakes::dtypeAsOperand() {
  if (!at(Tok::Word) || at(Tok::LBracket, 1)) return false;
  std::string_view word = text(tok());
  std::string_view name = word.substr(word.rfind('.') + 1);
  if (!parseDType(name)) {
    if (!atDotted()) return false;
    const std::string hint = dtypeHint(name);
    const size_t quote = hint.find('\'');
    if (!hint.starts_with("; dtc calls it ") || quote == std::string::npos) return false;
    return error(kDTypeOperand, tok().range(), hint.substr(quote + 1, hint.size() - quote - 2)), true;
  }
  return error(kDTypeOperand, tok().range(), name), true;
}

// `shard %x @m{a, _}`, `shard %x {a, _}`
bool Mistakes::shardingWithoutColon() {
  if (tok().firstOnLine || !atSharding()) return false;
  const size_t first = in_.pos, open = in_.pos + (at(Tok::Symbol) ? 1 : 0);
  in_.pos = std::max<size_t>(tokens()[open].match, open) + 1;
  const std::string written = lineText(first, in_.pos);
  error(kShardingColon, since(first), written);
  return true;
}

// `softmax %x, dim = 1`, `softmax %x (dim = 1)`, `softmax %x {dim: 1}`: reported at the word, or at the
// bracket before it.
bool Mistakes::misplacedAttributes() {
  const size_t bracket = at(Tok::LParen) || at(Tok::LBrace) ? 1 : 0;
  const bool bare = at(Tok::Equal) && in_.pos > 0 && tokens()[in_.pos - 1].kind == Tok::Word;
  const bool inParentheses = at(Tok::LParen) && at(Tok::Word, 1) && at(Tok::Equal, 2);
  const bool withColon = at(Tok::LBrace) && at(Tok::Word, 1) && at(Tok::Colon, 2) && !at(Tok::LParen, 3);
  if (tok().firstOnLine || !(bare || inParentheses || withColon)) return false;
  const Token& name = bare ? tokens()[in_.pos - 1] : tok(bracket);
  error(kBraces, name.range(), text(name));
  return true;
}

std::string Mistakes::operandHint() const {
  if (at(Tok::LBracket)) return "; a list is an attribute, as in '{shape = [2, 3]}'";
  if (at(Tok::LParen)) return "; operands and results are written without parentheses";
  if (at(Tok::String)) return "; a string is an attribute, as in '{equation = \"ij,jk->ik\"}'";
  if (at(Tok::Symbol)) return "; a function is called by a statement of its own, 'call @f(…)'";
  return "";
}

std::string Mistakes::blockHint() const {
  if (atWord("else")) return "; the second block follows the first with no word between";
  if (atWord("do")) return "; the body follows the condition with no word between";
  return "";
}

// The source text between two tokens, on one line and shortened.
std::string Mistakes::lineText(size_t first, size_t end) const {
  std::string out;
  constexpr size_t kShown = 60;
  for (size_t i = first; i < end && i < tokens().size(); ++i) {
    bool separated = i > first && tokens()[i].begin > tokens()[i - 1].end;
    out += (separated ? " " : "") + std::string(text(tokens()[i]));
    if (out.size() > kShown) return out.substr(0, kShown) + "…";
  }
  return out;
}

} // namespace dtc
