#include "text/TokenReader.h"

#include "text/FloatText.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace dtc {

constexpr DiagKind kExpected{"syntax", "expected {0}, found {1}{2}"};
constexpr DiagKind kComma{"missing-comma", "expected ',' before '{0}'"};
constexpr DiagKind kLiteralKind{"literal-kind", "{0} cannot be used as {1}{2}"};
constexpr DiagKind kLiteralRange{"literal-range", "{0} does not fit in {1}"};

constexpr std::string_view kReserved[] = {"mesh",   "func",  "spmd", "of",    "in",
                                          "return", "yield", "true", "false", "_"};

static std::string article(DType d) {
  std::string name(dtypeName(d));
  bool vowel = name[0] == 'i' || name == "u8" || name[0] == 'f';
  return (vowel ? "an " : "a ") + name;
}

// The 64 bits of an Int token, and whether it exceeds 2^63-1. The lexer has checked the range.
static int64_t integerOf(std::string_view word, bool& isUnsigned) {
  bool negative = word.front() == '-';
  if (negative) word.remove_prefix(1);
  bool hex = word.size() > 2 && (word[1] == 'x' || word[1] == 'X');
  if (hex) word.remove_prefix(2);
  uint64_t v = 0;
  std::from_chars(word.data(), word.data() + word.size(), v, hex ? 16 : 10);
  isUnsigned = !negative && v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(negative ? 0 - v : v);
}

std::string dtypeHint(std::string_view word) {
  std::vector<std::string_view> known;
  for (int d = 0; d < kNumDTypes; ++d) known.push_back(dtypeName(static_cast<DType>(d)));
  return suggestion(Vocabulary::DType, word, known);
}

bool TokenReader::lexed(std::string_view text) {
  in_.text = text;
  return lex(text, in_.lexed, diags_);
}

bool TokenReader::atName(size_t ahead) const {
  if (!at(Tok::Word, ahead)) return false;
  std::string_view w = text(tok(ahead));
  if (w.find('.') != std::string_view::npos) return false;
  return std::find(std::begin(kReserved), std::end(kReserved), w) == std::end(kReserved);
}

bool TokenReader::atSharding() const {
  size_t skip = at(Tok::Symbol) ? 1 : 0;
  if (at(Tok::LBracket, skip)) return true;
  return at(Tok::LBrace, skip) && (skip || !atAttrs());
}

// The list is scanned once, not again at each of its names.
bool TokenReader::atStatement() const {
  TokenStream::NameList& names = in_.names;
  const size_t first = in_.pos;
  if (first >= names.first && first <= names.last && (names.last - first) % 2 == 0) return names.defined;
  size_t ahead = 0;
  while (at(Tok::Value, ahead) && at(Tok::Comma, ahead + 1)) ahead += 2;
  names = {first, first + ahead, at(Tok::Value, ahead) && at(Tok::Equal, ahead + 1)};
  return names.defined;
}

bool TokenReader::atNextStatement() const {
  if (in_.pos >= in_.blockEnd && !in_.snippet) return true;
  if (at(Tok::RBrace) || atWord("return") || atWord("yield")) return true;
  if (atStatement()) { // not `%x, %x,` with `%r =` on the next line
    size_t names = 0;
    while (!at(Tok::Equal, names) && (names == 0 || !tok(names).firstOnLine)) ++names;
    if (tok().firstOnLine || at(Tok::Equal, names)) return true;
  }
  return tok().firstOnLine && at(Tok::Word) && m_.registry->find(text(tok())) != kNoOpKind;
}

bool TokenReader::expectName(std::string_view what, ParsedName& out) {
  if (!atName()) return unexpected(what);
  out = {m_.strings.intern(text(tok())), tok().range()};
  ++in_.pos;
  return true;
}

bool TokenReader::expectName(Tok kind, std::string_view what, ParsedName& out) {
  if (!at(kind)) return unexpected(what);
  out = {m_.strings.intern(text(tok()).substr(1)), tok().range()};
  ++in_.pos;
  return true;
}

bool TokenReader::wrongKind(SourceRange range, std::string_view what, DType d, std::string_view hint) {
  return error(kLiteralKind, range, what, article(d), hint);
}

bool TokenReader::number(std::string_view word, const Token& t, DType d, Attr& out) {
  out = Attr();
  if (isBool(d) != (t.kind == Tok::Word)) {
    std::string hint = isBool(d) ? ": write 'true' or 'false'" : "";
    return wrongKind(t.range(), found(t), d, hint);
  }
  if (isBool(d)) {
    out.kind = Attr::Bool;
    out.i = word == "true";
    return true;
  }
  if (isComplex(d)) d = partType(d); // a real number
  if (isFloat(d)) {
    out.kind = Attr::Float;
    return readFloat(word, d, out.f) || error(kLiteralRange, t.range(), found(t), dtypeName(d));
  }
  if (t.kind == Tok::Float) return wrongKind(t.range(), found(t), d, ", which is an integer dtype");
  out.i = integerOf(word, out.isUnsigned);
  return fitsInteger(d, out.i, out.isUnsigned) || error(kLiteralRange, t.range(), found(t), dtypeName(d));
}

bool TokenReader::literal(Attr& out) {
  const Token& t = tok();
  DType d = t.kind == Tok::Float ? DType::F64 : t.kind == Tok::Word ? DType::Bool : DType::U64;
  if (t.kind == Tok::Int) {
    out = Attr();
    out.i = integerOf(text(t), out.isUnsigned);
  } else if (!number(t, d, out)) {
    return false;
  }
  ++in_.pos;
  return true;
}

void TokenReader::step() {
  const Token& t = tok();
  Tok close = t.kind == Tok::LBrace     ? Tok::RBrace
              : t.kind == Tok::LBracket ? Tok::RBracket
              : t.kind == Tok::LParen   ? Tok::RParen
                                        : Tok::End;
  bool opens = close != Tok::End && t.match > in_.pos;
  // An unclosed bracket ends before a token that cannot be inside it.
  in_.pos = !opens ? in_.pos + 1 : tokens()[t.match].kind == close ? t.match + 1 : t.match;
}

void TokenReader::skipToTopLevel() {
  while (!at(Tok::End) && !atWord("mesh") && !atWord("func") && !atWord("spmd")) step();
}

// Skips from an element's first token to the token after it, over all brackets that it opens.
void TokenReader::skipElement(Tok close, size_t start) {
  size_t wrong = in_.pos;
  for (in_.pos = start; in_.pos < wrong && !at(Tok::Comma) && !at(close) && !at(Tok::End);) step();
  while (!at(Tok::End) && !at(Tok::Comma) && !at(close) && !at(Tok::RBrace) && !atWord("func")) step();
}

bool TokenReader::unexpected(std::string_view what, std::string_view hint) {
  if (hint.empty() && atDotted()) hint = "; names have letters, digits and '_'";
  return error(kExpected, tok().range(), what, found(tok()), hint);
}

void TokenReader::missingComma() { error(kComma, tok().range(), text(tok())); }

std::string TokenReader::found(const Token& t) const {
  if (t.kind == Tok::End) return "the end of the text";
  std::string_view word = text(t);
  constexpr size_t kShown = 40;
  if (word.size() > kShown) return "'" + std::string(word.substr(0, kShown)) + "…'";
  return "'" + std::string(word) + "'";
}

// A line that the lexer has reported, and mismatched brackets: no further errors are reported there.
bool TokenReader::suppressed() const {
  for (size_t i = in_.pos; i < tokens().size() && (i == in_.pos || !tokens()[i].firstOnLine); ++i)
    if (tokens()[i].kind == Tok::Broken) return true;
  return std::any_of(in_.lexed.broken.begin(), in_.lexed.broken.end(),
                     [&](auto r) { return in_.pos >= r.first && in_.pos <= r.second; });
}

} // namespace dtc
