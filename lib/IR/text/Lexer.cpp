#include "text/Lexer.h"
#include "dtc/Support/DType.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Utf8.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

constexpr DiagKind kTextTooLong{"text-too-long", "the text has {0} bytes; dtc reads at most {1}"};
constexpr DiagKind kTooManyWords{"text-too-long", "the text has more than {0} tokens, the maximum"};
constexpr DiagKind kTooDeep{"too-deep", "brackets nest more than {0} deep here"};
constexpr DiagKind kByteOrderMark{"encoding",
                                  "the text begins with a byte-order mark; save it as UTF-8 without one"};
constexpr DiagKind kNotUtf8{"encoding", "this is not UTF-8 (byte 0x{0})"};
constexpr DiagKind kBadCharacter{"bad-character", "unexpected character {0}{1}"};
constexpr DiagKind kUnclosedString{"unclosed-string", "the string is not closed on its line"};
constexpr DiagKind kBadEscape{"bad-escape",
                              "unknown escape '{0}'; expected one of: \\\" \\\\ \\n \\t and \\xHH"};
constexpr DiagKind kUnclosed{"unclosed-bracket", "'{0}' is not closed before {1}"};
constexpr DiagKind kUnopened{"unopened-bracket", "unmatched '{0}'"};
constexpr DiagKind kLetterAfterNumber{"letter-after-number",
                                      "a number ends before '{0}'; put a space between them"};
constexpr DiagKind kIntRange{"int-range", "{0} does not fit in 64 bits (-2^63 to 2^64-1)"};
constexpr DiagKind kDigitAfterPoint{"digit-after-point", "expected a digit after the point of '{0}'"};
constexpr DiagKind kEmptyName{"empty-name", "expected a name after '{0}'{1}"};
constexpr DiagKind kDigitAfterAt{"digit-after-at",
                                 "the name of a mesh or function does not begin with a digit"};
constexpr DiagKind kMlirType{"mlir-type", "'{0}' is how MLIR writes a type; write {1}"};
constexpr DiagKind kSizesJoined{"letter-after-number", "sizes are separated by commas: write {0}"};
constexpr DiagKind kFloatForm{"float-form",
                              "'{0}' is not a number; floats are written as 1.5, 1e-5 or 0x1.8p3"};

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isHex(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isWordChar(char c) { return isLetter(c) || isDigit(c); }

std::string hexByte(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  auto b = static_cast<unsigned char>(c);
  return {digits[b >> 4], digits[b & 15]};
}

// The dtc equivalent of a character of Python, C or MLIR.
std::string_view hintFor(char c) {
  switch (c) {
  case '+': return ": there are no infix operators; write 'add %a, %b'";
  case '-': return ": there are no infix operators; write 'sub %a, %b' or 'neg %a'";
  case '<':
  case '>': return ": comparisons are ops, such as 'lt %a, %b'; types are written f32[2, 3]";
  case '&': return ": write 'and %a, %b'";
  case '!': return ": write 'not %a'";
  case '^': return ": write 'pow %a, %b', or 'xor %a, %b'";
  case ';': return ": statements need no separator";
  case '#': return ": comments begin with '//'";
  case '\'': return ": strings are written with double quotes";
  case '.': return ": names have letters, digits and '_'; ops have no prefix, as in 'matmul %a, %b'";
  default: return "";
  }
}

// "4x6xf32" of MLIR's tensor<4x6xf32> as "f32[4, 6]"; a dynamic size becomes a symbol. Empty if it is not
// such a type.
std::string typeOfMlir(std::string_view shape) {
  std::string sizes;
  char symbol = 'N';
  for (size_t x = shape.find('x'); x != std::string_view::npos; x = shape.find('x')) {
    std::string_view size = shape.substr(0, x);
    const bool digits = !size.empty() && std::all_of(size.begin(), size.end(), isDigit);
    if (!digits && size != "?") break;
    if (sizes.size() > 100) return "";
    sizes += (sizes.empty() ? "" : ", ") + (digits ? std::string(size) : std::string(1, symbol++));
    shape.remove_prefix(x + 1);
  }
  for (int d = 0; d < kNumDTypes; ++d) {
    std::string_view name = dtypeName(static_cast<DType>(d));
    const std::string called = "; dtc calls it '" + std::string(name) + "'";
    if (shape == name || suggestion(Vocabulary::DType, shape, {name}) == called)
      return std::string(name) + "[" + sizes + "]";
  }
  return "";
}

class Lexer {
public:
  Lexer(std::string_view text, LexedText& out, Diagnostics& diags) : text_(text), out_(out), diags_(diags) {}

  bool run() {
    if (text_.size() > kMaxTextBytes) {
      diags_.error(kTextTooLong, {0, 0}, text_.size(), kMaxTextBytes);
      return false;
    }
    out_.tokens.reserve(text_.size() / 5 + 16);
    if (text_.starts_with("\xef\xbb\xbf")) {
      diags_.error(kByteOrderMark, {0, 3});
      at_ = 3;
    }
    while (skipSpace()) {
      if (out_.tokens.size() >= kMaxTokens) return fail(kTooManyWords, kMaxTokens);
      if (diags_.full()) break;
      if (!next()) return false;
    }
    closeAll("the end of the text");
    emit(Tok::End, text_.size());
    return true;
  }

private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  SourceRange rangeFrom(size_t begin, size_t end) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }
  template <class... Args> bool fail(const DiagKind& kind, const Args&... args) {
    diags_.error(kind, rangeFrom(at_, std::min(at_ + 1, text_.size())), args...);
    return false;
  }

  // Advances to the next word; false at the end.
  bool skipSpace() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '\n') newLine_ = true;
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        skipComment();
      } else {
        return true;
      }
    }
    return false;
  }

  void skipComment() {
    while (at_ < text_.size() && text_[at_] != '\n') checkedStep();
  }

  // Skips one character of a comment or string, which must be UTF-8 and not a control character.
  bool checkedStep() {
    char c = text_[at_];
    size_t length = utf8Length(text_, at_);
    if (length == 0) {
      diags_.error(kNotUtf8, rangeFrom(at_, at_ + 1), hexByte(c));
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') {
      diags_.error(kBadCharacter, rangeFrom(at_, at_ + 1), "0x" + hexByte(c), "");
    } else {
      at_ += length;
      return true;
    }
    // One report per run of such bytes.
    do ++at_;
    while (at_ < text_.size() && text_[at_] != '\n' &&
           (utf8Length(text_, at_) == 0 ||
            (static_cast<unsigned char>(text_[at_]) < 0x20 && text_[at_] != '\t')));
    return false;
  }

  void emit(Tok kind, size_t end) {
    Token t;
    t.begin = static_cast<uint32_t>(at_);
    t.end = static_cast<uint32_t>(end);
    t.kind = kind;
    t.firstOnLine = newLine_;
    newLine_ = false;
    out_.tokens.push_back(t);
    at_ = end;
  }

  bool next() {
    char c = text_[at_];
    if (isLetter(c)) return word();
    if (isDigit(c)) return number();
    switch (c) {
    case '%': return prefixed(Tok::Value);
    case '@': return prefixed(Tok::Symbol);
    case '"': return string();
    case '-': return minus();
    case '{': return open(Tok::LBrace);
    case '[': return open(Tok::LBracket);
    case '(': return open(Tok::LParen);
    case '}': return close(Tok::RBrace, Tok::LBrace);
    case ']': return close(Tok::RBracket, Tok::LBracket);
    case ')': return close(Tok::RParen, Tok::LParen);
    case ',': return punctuation(Tok::Comma);
    case '=': return punctuation(Tok::Equal);
    case ':': return punctuation(Tok::Colon);
    case '|': return punctuation(Tok::Bar);
    case '*': return punctuation(Tok::Star);
    case '/': return punctuation(Tok::Slash);
    case '?': return punctuation(Tok::Question);
    case '.':
      if (peek(1) == '.') {
        const bool three = peek(2) == '.';
        emit(three ? Tok::Ellipsis : Tok::DotDot, at_ + (three ? 3 : 2));
        return true;
      }
      break;
    default: break;
    }
    return badCharacter();
  }

  bool punctuation(Tok kind) {
    emit(kind, at_ + 1);
    return true;
  }

  bool badCharacter() {
    size_t begin = at_;
    size_t length = utf8Length(text_, at_);
    char c = text_[at_];
    if (length == 0)
      diags_.error(kNotUtf8, rangeFrom(at_, at_ + 1), hexByte(c));
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      diags_.error(kBadCharacter, rangeFrom(at_, at_ + 1), "0x" + hexByte(c), "");
    else if (!lineIsBroken())
      diags_.error(kBadCharacter, rangeFrom(at_, at_ + length),
                   "'" + std::string(text_.substr(at_, length)) + "'", hintFor(c));
    constexpr std::string_view kKnown = "%@\"-{}[](),=:|*/?. \t\r\n";
    do begin += std::max<size_t>(1, utf8Length(text_, begin));
    while (begin < text_.size() && !isWordChar(text_[begin]) &&
           kKnown.find(text_[begin]) == std::string_view::npos);
    emit(Tok::Broken, std::min(begin, text_.size()));
    return true;
  }

  bool word() {
    size_t end = at_;
    while (end < text_.size() && isWordChar(text_[end])) ++end;
    // "torch.relu" is lexed as one word, so that it can be translated; the parser does not accept it as a
    // name.
    while (end + 1 < text_.size() && text_[end] == '.' && isLetter(text_[end + 1]))
      for (++end; end < text_.size() && isWordChar(text_[end]);) ++end;
    std::string_view w = text_.substr(at_, end - at_);
    if ((w == "inf" || w == "nan")) {
      emit(Tok::Float, end);
      return true;
    }
    if (w == "tensor" && end < text_.size() && text_[end] == '<') return mlirType();
    // Brackets do not extend into the next function.
    if (w == "func" || w == "spmd") closeAll(w == "func" ? "'func'" : "'spmd'");
    emit(Tok::Word, end);
    return true;
  }

  // `tensor<4x6xf32>` as one word, which has been reported.
  bool mlirType() {
    size_t end = at_, depth = 0;
    for (; end < text_.size() && text_[end] != '\n'; ++end) {
      depth += text_[end] == '<';
      if (text_[end] == '>' && --depth == 0) break;
    }
    end = std::min(end + 1, text_.size());
    std::string_view type = text_.substr(at_, end - at_);
    constexpr size_t kHead = 7; // "tensor<"
    std::string here = type.size() > kHead ? typeOfMlir(type.substr(kHead, type.size() - kHead - 1)) : "";
    diags_.error(kMlirType, rangeFrom(at_, end), shortened(type), here.empty() ? "f32[2, 3]" : here);
    emit(Tok::Broken, end);
    return true;
  }

  // Whether a character of this line has been reported already.
  bool lineIsBroken() const {
    if (newLine_) return false;
    for (size_t i = out_.tokens.size(); i-- > 0;) {
      if (out_.tokens[i].kind == Tok::Broken) return true;
      if (out_.tokens[i].firstOnLine) break;
    }
    return false;
  }

  bool prefixed(Tok kind) {
    size_t end = at_ + 1;
    while (end < text_.size() && isWordChar(text_[end])) ++end;
    if (end == at_ + 1) {
      diags_.error(kEmptyName, rangeFrom(at_, end), text_.substr(at_, 1),
                   kind == Tok::Symbol ? "; a matrix product is written 'matmul %a, %b'" : "");
      kind = Tok::Broken;
    } else if (kind == Tok::Symbol && isDigit(text_[at_ + 1])) {
      diags_.error(kDigitAfterAt, rangeFrom(at_, end));
      kind = Tok::Broken;
    }
    emit(kind, end);
    return true;
  }

  bool string() {
    size_t begin = at_++;
    bool good = true;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      if (text_[at_] == '\\')
        good &= escape();
      else
        good &= checkedStep();
    }
    bool closed = at_ < text_.size() && text_[at_] == '"';
    size_t end = closed ? at_ + 1 : at_;
    if (!closed) diags_.error(kUnclosedString, rangeFrom(begin, end));
    at_ = begin;
    emit(good && closed ? Tok::String : Tok::Broken, end);
    return true;
  }

  bool escape() {
    char c = peek(1);
    size_t length = c == 'x' ? 4 : 2;
    bool good =
        c == '"' || c == '\\' || c == 'n' || c == 't' || (c == 'x' && isHex(peek(2)) && isHex(peek(3)));
    if (!good) {
      size_t shown = std::max<size_t>(1, utf8Length(text_, at_ + 1));
      if (c == '\n' || at_ + 1 >= text_.size()) shown = 0;
      diags_.error(kBadEscape, rangeFrom(at_, at_ + 1 + shown), text_.substr(at_, 1 + shown));
      at_ += 1 + shown;
      return false;
    }
    at_ += length;
    return true;
  }

  bool minus() {
    if (peek(1) == '>') {
      emit(Tok::Arrow, at_ + 2);
      return true;
    }
    if (isDigit(peek(1))) return number();
    for (std::string_view w : {"inf", "nan"}) {
      if (text_.substr(at_ + 1).starts_with(w) && !isWordChar(peek(4))) {
        emit(Tok::Float, at_ + 4);
        return true;
      }
    }
    return badCharacter();
  }

  size_t digitsFrom(size_t at, bool hex) const {
    while (at < text_.size() && (hex ? isHex(text_[at]) : isDigit(text_[at]))) ++at;
    return at;
  }

  // The end of an exponent at `at` that begins with one of `letters`, or `at` if there is none.
  size_t exponentFrom(size_t at, std::string_view letters) const {
    if (at >= text_.size() || letters.find(text_[at]) == std::string_view::npos) return at;
    size_t digits = at + 1;
    if (digits < text_.size() && (text_[digits] == '-' || text_[digits] == '+')) ++digits;
    size_t end = digitsFrom(digits, false);
    return end == digits ? at : end;
  }

  bool number() {
    size_t begin = at_ + (text_[at_] == '-');
    bool hex = text_[begin] == '0' && begin + 1 < text_.size() &&
               (text_[begin + 1] == 'x' || text_[begin + 1] == 'X');
    size_t first = begin + (hex ? 2 : 0);
    size_t end = digitsFrom(first, hex);
    bool isFloat = false, good = end > first;
    if (end < text_.size() && text_[end] == '.' && !text_.substr(end).starts_with("..")) {
      size_t fraction = digitsFrom(end + 1, hex);
      if (fraction == end + 1) {
        diags_.error(kDigitAfterPoint, rangeFrom(at_, fraction), text_.substr(at_, fraction - at_));
        emit(Tok::Broken, fraction);
        return true;
      }
      end = fraction;
      isFloat = true;
    }
    size_t exponent = exponentFrom(end, hex ? "pP" : "eE");
    good &= !(hex && isFloat && exponent == end);
    isFloat |= exponent != end;
    end = exponent;
    if (end < text_.size() && isWordChar(text_[end])) return letterAfter(end);
    if (!good) return malformed(end);
    if (!isFloat && !fits(text_.substr(at_, end - at_))) {
      diags_.error(kIntRange, rangeFrom(at_, end), shortened(text_.substr(at_, end - at_)));
      emit(Tok::Broken, end);
      return true;
    }
    emit(isFloat ? Tok::Float : Tok::Int, end);
    return true;
  }

  bool letterAfter(size_t end) {
    size_t last = end;
    while (last < text_.size() && isWordChar(text_[last])) ++last;
    if (std::string sizes = joinedSizes(text_.substr(at_, last - at_)); !sizes.empty())
      diags_.error(kSizesJoined, rangeFrom(at_, last), sizes);
    else
      diags_.error(kLetterAfterNumber, rangeFrom(at_, last), shortened(text_.substr(end, last - end)));
    emit(Tok::Broken, last);
    return true;
  }

  // "4x6" as "4, 6"; empty for any other word.
  static std::string joinedSizes(std::string_view word) {
    std::string out;
    for (size_t i = 0; i < word.size() && out.size() < 100; ++i) {
      if (isDigit(word[i]))
        out += word[i];
      else if (word[i] == 'x' && i > 0 && i + 1 < word.size() && isDigit(word[i - 1]) && isDigit(word[i + 1]))
        out += ", ";
      else
        return "";
    }
    return out;
  }

  bool malformed(size_t end) {
    diags_.error(kFloatForm, rangeFrom(at_, end), shortened(text_.substr(at_, end - at_)));
    emit(Tok::Broken, end);
    return true;
  }

  static std::string shortened(std::string_view word) {
    return word.size() <= 40 ? std::string(word) : std::string(word.substr(0, 40)) + "…";
  }

  static bool fits(std::string_view word) {
    bool negative = word.front() == '-';
    if (negative) word.remove_prefix(1);
    bool hex = word.size() > 2 && (word[1] == 'x' || word[1] == 'X');
    if (hex) word.remove_prefix(2);
    uint64_t v = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), v, hex ? 16 : 10);
    return error == std::errc() && (!negative || v <= uint64_t(1) << 63);
  }

  // --- brackets ---

  bool open(Tok kind) {
    if (stack_.size() >= kMaxNesting) return fail(kTooDeep, kMaxNesting);
    stack_.push_back(static_cast<uint32_t>(out_.tokens.size()));
    return punctuation(kind);
  }

  bool close(Tok kind, Tok partner) {
    auto index = static_cast<uint32_t>(out_.tokens.size());
    auto it = std::find_if(stack_.rbegin(), stack_.rend(),
                           [&](uint32_t o) { return out_.tokens[o].kind == partner; });
    if (it == stack_.rend()) {
      diags_.error(kUnopened, rangeFrom(at_, at_ + 1), text_.substr(at_, 1));
      return punctuation(Tok::Broken);
    }
    auto innermost = static_cast<size_t>(it - stack_.rbegin());
    if (innermost > 0)
      unclosed(stack_.size() - innermost, index, "'" + std::string(text_.substr(at_, 1)) + "'");
    out_.tokens[stack_.back()].match = index;
    stack_.pop_back();
    return punctuation(kind);
  }

  // Reports the innermost open bracket from `from` on, and closes them all before token `index`.
  void unclosed(size_t from, uint32_t index, const std::string& before) {
    const Token& open = out_.tokens[stack_.back()];
    diags_.error(kUnclosed, open.range(), text_.substr(open.begin, 1), before);
    out_.broken.emplace_back(stack_[from], index);
    for (size_t i = from; i < stack_.size(); ++i) out_.tokens[stack_[i]].match = index;
    stack_.resize(from);
  }

  void closeAll(std::string_view before) {
    if (!stack_.empty()) unclosed(0, static_cast<uint32_t>(out_.tokens.size()), std::string(before));
  }

  std::string_view text_;
  LexedText& out_;
  Diagnostics& diags_;
  size_t at_ = 0;
  bool newLine_ = true;
  std::vector<uint32_t> stack_; // open brackets
};

} // namespace

bool lex(std::string_view text, LexedText& out, Diagnostics& diags) { return Lexer(text, out, diags).run(); }

std::string unescape(std::string_view quoted) {
  auto nibble = [](char c) { return isDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10; };
  std::string out;
  out.reserve(quoted.size());
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\') {
      out += quoted[i];
      continue;
    }
    char c = quoted[++i];
    if (c == 'x') {
      out += static_cast<char>(nibble(quoted[i + 1]) * 16 + nibble(quoted[i + 2]));
      i += 2;
    } else {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
  }
  return out;
}

} // namespace dtc
