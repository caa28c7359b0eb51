// Numbers, and the dtypes that literal operands get (ir.md §2.4).
#include "FloatText.h"
#include "Parser.h"

#include <charconv>
#include <limits>

namespace dtc {

namespace {

constexpr DiagKind kLiteralKind{"literal-kind", "{0} cannot be used as {1}{2}"};
constexpr DiagKind kLiteralRange{"literal-range", "{0} does not fit in {1}"};
constexpr DiagKind kLiteralType{"literal-needs-type", "this number needs a dtype: {0}"};

std::string article(DType d) {
  std::string name(dtypeName(d));
  bool vowel = name[0] == 'i' || name == "u8" || name[0] == 'f';
  return (vowel ? "an " : "a ") + name;
}

// The 64 bits of an Int word, and whether they are a number above 2^63-1. The lexer has checked the range.
int64_t integerOf(std::string_view word, bool& isUnsigned) {
  bool negative = word.front() == '-';
  if (negative) word.remove_prefix(1);
  bool hex = word.size() > 2 && (word[1] == 'x' || word[1] == 'X');
  if (hex) word.remove_prefix(2);
  uint64_t v = 0;
  std::from_chars(word.data(), word.data() + word.size(), v, hex ? 16 : 10);
  isUnsigned = !negative && v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(negative ? 0 - v : v);
}

bool fitsInteger(DType d, int64_t v, bool isUnsigned) {
  if (d == DType::U64) return isUnsigned || v >= 0;
  if (isUnsigned) return false;
  return v >= intMin(d) && v <= intMax(d);
}

} // namespace

bool Parser::atLiteral() const { return at(Tok::Int) || at(Tok::Float) || atWord("true") || atWord("false"); }

// A number of no particular dtype; floats as f64.
bool Parser::literal(Attr& out) {
  const Token& t = tok();
  DType d = t.kind == Tok::Float ? DType::F64 : t.kind == Tok::Word ? DType::Bool : DType::U64;
  if (t.kind == Tok::Int) {
    out = Attr();
    out.i = integerOf(text(t), out.isUnsigned);
  } else if (!number(t, d, out)) {
    return false;
  }
  ++pos_;
  return true;
}

bool Parser::number(const Token& t, DType d, Attr& out) { return number(text(t), t, d, out); }

// The literal `word`, of the kind and at the place of `t`, as a value of dtype `d`.
bool Parser::number(std::string_view word, const Token& t, DType d, Attr& out) {
  out = Attr();
  if (isBool(d) != (t.kind == Tok::Word)) {
    std::string hint = isBool(d) ? ": write 'true' or 'false'" : "";
    return error(kLiteralKind, t.range(), found(t), article(d), hint);
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
  if (t.kind == Tok::Float)
    return error(kLiteralKind, t.range(), found(t), article(d), ", which is an integer dtype");
  out.i = integerOf(word, out.isUnsigned);
  return fitsInteger(d, out.i, out.isUnsigned) || error(kLiteralRange, t.range(), found(t), dtypeName(d));
}

bool Parser::isUntyped(ValueId v) const {
  const Value& value = m_[v];
  return (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) && !value.type.valid();
}

bool Parser::poisoned(ValueId v) const { return !m_[v].type.valid() && !isUntyped(v); }

// Gives an untyped literal its dtype; nothing to do for other values.
bool Parser::typeLiteral(ValueId v, DType d, std::string_view forWhat) {
  if (!isUntyped(v)) return true;
  SourceRange range = m_[v].loc;
  if (m_[v].kind == ValueKind::Symbol) {
    if (isBool(d)) return error(kLiteralKind, range, "a size", article(d), forWhat);
  } else {
    Token t;
    t.begin = range.begin;
    t.end = range.end;
    const Attr& written = m_.attrs[m_[v].literal];
    t.kind = written.kind == Attr::Float ? Tok::Float : written.kind == Attr::Bool ? Tok::Word : Tok::Int;
    Attr value;
    // A size that --dim gave (or `2*3`) is a number that does not stand in the text.
    bool computed = m_[v].symbol != Dim();
    if (!(computed ? number(std::to_string(written.i), t, d, value) : number(t, d, value))) return false;
    m_[v].symbol = Dim();
    m_[v].literal = m_.attrs.intern(std::move(value));
  }
  m_[v].type = m_.tensorType(d, std::initializer_list<int64_t>{});
  return true;
}

// The dtype of the first operand that is no literal and whose place asks for the same one; else the written result's.
std::optional<DType> Parser::likeOperands(const Statement& s, size_t operand) const {
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (i == operand || isUntyped(s.operands[i].value) || poisoned(s.operands[i].value)) continue;
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

bool Parser::typeOperandLiterals(Statement& s) {
  using LiteralType = OpRecord::LiteralType;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    ValueId v = s.operands[i].value;
    if (!isUntyped(v)) continue;
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
                   "no other operand of '" + std::string(s.opName) + "' says it: write the result's type");
    if (!typeLiteral(v, *d, "")) return false;
  }
  return true;
}

} // namespace dtc
