#include "mlir/MlirLexer.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace dtc {

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool isNameChar(char c) { return isLetter(c) || isDigit(c) || c == '_' || c == '$' || c == '.'; }
// Names of values, symbols and aliases may also contain a minus.
bool isSuffixChar(char c) { return isNameChar(c) || c == '-'; }

int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char closerOf(char c) { return c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : c == '<' ? '>' : '\0'; }

} // namespace

// A text outside of the source (the body of an attribute without one) is empty, at the source's end.
MlirLexer::MlirLexer(std::string_view source, std::string_view part) : source_(source) {
  const size_t begin = std::min(
      static_cast<size_t>(std::bit_cast<uintptr_t>(part.data()) - std::bit_cast<uintptr_t>(source.data())),
      source.size());
  end_ = static_cast<uint32_t>(std::min(begin + part.size(), source.size()));
  seek(static_cast<uint32_t>(begin));
}

void MlirLexer::seek(uint32_t offset) {
  after_ = offset;
  current_ = lex(after_);
}

MlirToken MlirLexer::next() {
  MlirToken taken = current_;
  current_ = lex(after_);
  return taken;
}

MlirToken MlirLexer::second() const {
  uint32_t at = after_;
  return lex(at);
}

bool MlirLexer::accept(char c) {
  if (!current_.is(c)) return false;
  next();
  return true;
}

bool MlirLexer::acceptWord(std::string_view w) {
  if (!current_.isWord(w)) return false;
  next();
  return true;
}

std::optional<std::string_view> MlirLexer::skipBalanced() {
  std::string open; // the closing brackets still expected
  uint32_t begin = current_.end;
  do {
    if (current_.kind == MlirTok::End || current_.kind == MlirTok::Bad) return std::nullopt;
    if (current_.kind == MlirTok::Punct) {
      char c = current_.text[0];
      if (char closer = closerOf(c)) {
        if (open.size() >= kMlirMaxNesting) return std::nullopt;
        open.push_back(closer);
      } else if (c == ')' || c == ']' || c == '}' || c == '>') {
        if (open.empty() || open.back() != c) return std::nullopt;
        open.pop_back();
      }
    }
    if (!open.empty()) next();
  } while (!open.empty());
  uint32_t end = current_.begin;
  next();
  return between(begin, end);
}

MlirToken MlirLexer::make(MlirTok kind, uint32_t begin, uint32_t end, uint32_t textBegin,
                          uint32_t textEnd) const {
  return {kind, begin, end, source_.substr(textBegin, textEnd - textBegin), 0};
}

MlirToken MlirLexer::lex(uint32_t& at) const {
  for (;;) {
    while (at < end_ &&
           (source_[at] == ' ' || source_[at] == '\n' || source_[at] == '\t' || source_[at] == '\r'))
      ++at;
    if (at + 1 >= end_ || source_[at] != '/' || source_[at + 1] != '/') break;
    while (at < end_ && source_[at] != '\n') ++at;
  }
  if (at >= end_) return make(MlirTok::End, end_, end_, end_, end_);
  uint32_t begin = at;
  char c = source_[at];
  if (c == '"') return lexString(at);
  if (isDigit(c) || (c == '-' && at + 1 < end_ && isDigit(source_[at + 1]))) return lexNumber(at);
  if (c == '-' && at + 1 < end_ && source_[at + 1] == '>') {
    at += 2;
    return make(MlirTok::Arrow, begin, at, begin, at);
  }
  if (isLetter(c) || c == '_') {
    while (at < end_ && isNameChar(source_[at])) ++at;
    return make(MlirTok::Word, begin, at, begin, at);
  }
  if (c == '%') return lexValue(at);
  if (c == '@' && at + 1 < end_ && source_[at + 1] == '"') {
    ++at;
    MlirToken quoted = lexString(at);
    quoted.begin = begin;
    if (quoted.kind == MlirTok::String) quoted.kind = MlirTok::Symbol;
    return quoted;
  }
  if (c == '@' || c == '#' || c == '!' || c == '^') {
    ++at;
    while (at < end_ && (c == '@' || c == '^' ? isSuffixChar(source_[at]) : isNameChar(source_[at]))) ++at;
    MlirTok kind = c == '@'   ? MlirTok::Symbol
                   : c == '#' ? MlirTok::Hash
                   : c == '!' ? MlirTok::Bang
                              : MlirTok::Block;
    return make(at > begin + 1 ? kind : MlirTok::Bad, begin, at, begin + 1, at);
  }
  ++at;
  bool known = std::string_view("()[]{}<>,:=?*+-/|&;").find(c) != std::string_view::npos;
  return make(known ? MlirTok::Punct : MlirTok::Bad, begin, at, begin, at);
}

MlirToken MlirLexer::lexValue(uint32_t& at) const {
  uint32_t begin = at++;
  while (at < end_ && isSuffixChar(source_[at])) ++at;
  MlirToken t = make(at > begin + 1 ? MlirTok::Value : MlirTok::Bad, begin, at, begin + 1, at);
  if (at + 1 >= end_ || source_[at] != '#' || !isDigit(source_[at + 1])) return t;
  uint32_t digits = at + 1;
  for (at = digits; at < end_ && isDigit(source_[at]);) ++at;
  auto [stop, bad] = std::from_chars(source_.data() + digits, source_.data() + at, t.number);
  if (bad != std::errc()) t.kind = MlirTok::Bad;
  t.end = at;
  return t;
}

MlirToken MlirLexer::lexNumber(uint32_t& at) const {
  uint32_t begin = at;
  if (source_[at] == '-') ++at;
  if (source_[at] == '0' && at + 2 < end_ && source_[at + 1] == 'x' && hexDigit(source_[at + 2]) >= 0) {
    for (at += 2; at < end_ && hexDigit(source_[at]) >= 0;) ++at;
    return make(MlirTok::Int, begin, at, begin, at);
  }
  while (at < end_ && isDigit(source_[at])) ++at;
  if (at >= end_ || source_[at] != '.') return make(MlirTok::Int, begin, at, begin, at);
  for (++at; at < end_ && isDigit(source_[at]);) ++at;
  if (at < end_ && (source_[at] == 'e' || source_[at] == 'E')) {
    uint32_t exponent = at + 1;
    if (exponent < end_ && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
    if (exponent < end_ && isDigit(source_[exponent]))
      for (at = exponent; at < end_ && isDigit(source_[at]);) ++at;
  }
  return make(MlirTok::Float, begin, at, begin, at);
}

MlirToken MlirLexer::lexString(uint32_t& at) const {
  uint32_t begin = at++;
  while (at < end_ && source_[at] != '"' && source_[at] != '\n')
    at += source_[at] == '\\' && at + 1 < end_ ? 2 : 1;
  if (at >= end_ || source_[at] != '"') {
    at = std::min(at, end_);
    return make(MlirTok::Bad, begin, at, begin, at);
  }
  ++at;
  return make(MlirTok::String, begin, at, begin + 1, at - 1);
}

std::string unescapeMlir(std::string_view quoted) {
  std::string out;
  out.reserve(quoted.size());
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\' || i + 1 >= quoted.size()) {
      out.push_back(quoted[i]);
      continue;
    }
    char c = quoted[++i];
    int high = hexDigit(c), low = i + 1 < quoted.size() ? hexDigit(quoted[i + 1]) : -1;
    if (high >= 0 && low >= 0) {
      out.push_back(static_cast<char>(high * 16 + low));
      ++i;
    } else {
      out.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c);
    }
  }
  return out;
}

std::optional<int64_t> mlirInteger(std::string_view text) {
  bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  uint64_t v = 0;
  auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), v, hex ? 16 : 10);
  if (bad != std::errc() || stop != text.data() + text.size() || text.empty()) return std::nullopt;
  if (negative && v > uint64_t{1} << 63) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - v : v);
}

} // namespace dtc
