#include "dtc/Report/audit/XlaHlo.h"

#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {

namespace {

constexpr DiagKind kSyntax{"hlo-syntax", "expected {0}"};
constexpr DiagKind kNoInstruction{
    "hlo-unknown-operand", "unknown instruction '{0}': it is not defined before this one in its computation"};
constexpr DiagKind kNoComputation{"hlo-empty", "the HLO text has no computation"};
constexpr DiagKind kTooLarge{"type-too-large", "the shape has more than 2^63-1 bytes"};
constexpr DiagKind kTwice{"hlo-redefined", "instruction '{0}' is defined twice in this computation"};

constexpr DiagKind kDevices{"hlo-devices", "too many devices: at most {0} are supported"};

constexpr int64_t kMaxDevices = 1 << 20; // the iota form denotes any number of them in a few characters
constexpr int kDeepest = 256;            // nested brackets

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-';
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }

// Bits of an element by the number in the dtype's name: "f32", "s8", "u4", "bf16", "f8e4m3fn", "c64"; pred is
// a byte.
int64_t bitsOf(std::string_view dtype) {
  if (dtype == "pred") return 8;
  if (dtype == "token" || dtype == "opaque") return 0;
  const size_t digit = dtype.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;
  return leadingNumber<int64_t>(dtype.substr(digit)).value_or(0);
}

class HloReader {
public:
  HloReader(XlaModule& m, Diagnostics& diags) : m_(m), text_(m.source.text), diags_(diags) {}

  bool run() {
    if (!moduleHead() || !tables()) return false;
    while (skip(), at_ < text_.size())
      if (!computation()) return false;
    if (m_.computations.empty()) return diags_.fail(kNoComputation, {0, 1});
    return true;
  }

private:
  bool fail(const char* expected) {
    skip();
    size_t end = at_;
    while (end < text_.size() && isNameChar(text_[end])) ++end;
    return diags_.fail(kSyntax, range(at_, std::max(end, at_ + 1)), expected);
  }
  static SourceRange range(size_t begin, size_t end) {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }

  // White space and comments.
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        break;
      }
    }
  }
  bool accept(std::string_view wanted) {
    skip();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  bool acceptWord(std::string_view word) {
    skip();
    const size_t end = at_ + word.size();
    if (text_.substr(at_, word.size()) != word || (end < text_.size() && isNameChar(text_[end])))
      return false;
    at_ = end;
    return true;
  }
  std::string_view name() {
    skip();
    if (at_ < text_.size() && text_[at_] == '%') ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Skips a string, or a bracketed part; false where it is not closed.
  bool pastString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ >= text_.size()) return fail("'\"' at the end of the string");
    ++at_;
    return true;
  }
  bool pastBrackets() {
    int depth = 0;
    do {
      if (at_ >= text_.size()) return fail("a closing bracket");
      const char c = text_[at_];
      if (c == '"') {
        if (!pastString()) return false;
        continue;
      }
      if (c == '{' || c == '(' || c == '[') ++depth;
      if (c == '}' || c == ')' || c == ']') --depth;
      if (depth > kDeepest) return fail("at most 256 nested brackets");
      ++at_;
    } while (depth > 0);
    return true;
  }

  // The value of an attribute: up to a comma, an unmatched closing bracket, or the end of the line.
  bool value(std::string& out) {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ',' || c == '\n' || c == '}' || c == ')') break;
      if (c == '"') {
        if (!pastString()) return false;
      } else if (c == '{' || c == '(' || c == '[') {
        if (!pastBrackets()) return false;
      } else {
        ++at_;
      }
    }
    size_t end = at_;
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\r')) --end;
    out = text_.substr(begin, end - begin);
    return true;
  }

  // Calls `each` with the key and the value of every ", key=value".
  template <class Fn> bool attributes(Fn&& each) {
    while (accept(",")) {
      const std::string_view key = name();
      if (key.empty()) return fail("an attribute's name");
      std::string text;
      if (!accept("=")) {
        each(key, text); // a flag
        continue;
      }
      if (!value(text)) return false;
      each(key, std::move(text));
    }
    return true;
  }

  bool moduleHead() {
    if (!acceptWord("HloModule")) return fail("'HloModule'");
    m_.name = name();
    if (!attributes([&](std::string_view key, const std::string& text) {
          const int64_t n = toNumber(text);
          if (key == "num_partitions" && n > 0) m_.partitions = n;
          if (key == "replica_count" && n > 0) m_.replicas = n;
        }))
      return false;
    if (m_.partitions <= kMaxDevices && m_.replicas <= kMaxDevices / m_.partitions) return true;
    return diags_.fail(kDevices, {0, 9}, kMaxDevices);
  }

  // The tables referenced by `stack_frame_id` of metadata: lines `1 "model.py"` and `1 {file_name_id=1
  // line=12 …}`.
  bool tables() {
    std::map<int64_t, std::string> files, locations;
    while (true) {
      const bool isFiles = acceptWord("FileNames"), isLocations = !isFiles && acceptWord("FileLocations");
      const bool isFrames = !isFiles && !isLocations && acceptWord("StackFrames");
      if (!isFiles && !isLocations && !isFrames && !acceptWord("FunctionNames")) return true;
      while (skip(), at_ < text_.size() && isDigit(text_[at_])) {
        const int64_t id = number();
        skip();
        const size_t begin = at_;
        if (at_ >= text_.size() || (text_[at_] == '"'   ? !pastString()
                                    : text_[at_] == '{' ? !pastBrackets()
                                                        : true))
          return fail("a row of the table");
        const std::string row(text_.substr(begin, at_ - begin));
        if (isFiles) files[id] = row.substr(1, row.size() - 2);
        if (isLocations) {
          const std::string file = files[toNumber(xlaMember(row, "file_name_id"))],
                            line = xlaMember(row, "line");
          locations[id] = file.empty() || line.empty() ? file : file + ":" + line;
        }
        if (isFrames) m_.frameLocations[id] = locations[toNumber(xlaMember(row, "file_location_id"))];
      }
    }
  }
  int64_t number() {
    const int64_t n = leadingNumber<int64_t>(text_.substr(at_)).value_or(0);
    while (at_ < text_.size() && isDigit(text_[at_])) ++at_;
    return n;
  }
  static int64_t toNumber(const std::string& text) { return leadingNumber<int64_t>(text).value_or(-1); }

  bool computation() {
    XlaComputation c;
    c.entry = acceptWord("ENTRY");
    c.name = name();
    if (c.name.empty()) return fail("a computation");
    skip();
    if (at_ < text_.size() && text_[at_] == '(') { // the body repeats the parameters and the result
      if (!pastBrackets()) return false;
      XlaShape unused;
      if (!accept("->") || !shape(unused)) return fail("'->' and the result's shape");
    }
    if (!attributesOfHead() || !accept("{")) return fail("'{' and the computation's instructions");
    number_ = static_cast<uint32_t>(m_.computations.size());
    m_.computations.push_back(std::move(c));
    named_.clear();
    while (!accept("}")) {
      if (skip(), at_ >= text_.size()) return fail("'}' at the end of the computation");
      if (!instruction()) return false;
    }
    return attributes([](std::string_view, const std::string&) {});
  }
  // execution_thread="main": attribute values here have no brackets; the body follows.
  bool attributesOfHead() {
    while (accept(",")) {
      if (name().empty() || !accept("=")) return false;
      skip();
      if (at_ < text_.size() && text_[at_] == '"' ? !pastString() : name().empty()) return false;
    }
    return true;
  }

  bool instruction() {
    XlaInstruction in;
    in.root = acceptWord("ROOT");
    skip();
    const size_t nameAt = at_;
    const std::string_view named = name();
    in.name = named;
    if (in.name.empty() || !accept("=")) return fail("an instruction, '%name = shape opcode(operands)'");
    const size_t nameEnd = nameAt + in.name.size();
    if (!shape(in.shape)) return false;
    skip();
    const size_t opcode = at_;
    in.opcode = name();
    in.loc = range(opcode, at_);
    in.computation = number_;
    if (in.opcode.empty() || (skip(), at_ >= text_.size() || text_[at_] != '('))
      return fail("an opcode and '('");
    if (!operands(in)) return false;
    if (!attributes([&](std::string_view key, std::string text) {
          in.attributes.insert_or_assign(std::string(key), std::move(text));
        }))
      return false;
    const auto id = static_cast<uint32_t>(m_.instructions.size());
    if (!named_.emplace(named, id).second) return diags_.fail(kTwice, range(nameAt, nameEnd), in.name);
    m_.computations[number_].instructions.push_back(id);
    m_.instructions.push_back(std::move(in));
    return true;
  }

  // Names, optionally with a shape; for a parameter or a constant its literal.
  bool operands(XlaInstruction& in) {
    const size_t open = at_;
    if (in.opcode == "parameter" || in.opcode == "constant" || in.opcode == "iota") {
      if (!pastBrackets()) return false;
      in.literal = text_.substr(open + 1, at_ - open - 2);
      return true;
    }
    ++at_;
    if (accept(")")) return true;
    do {
      skip();
      if (at_ < text_.size() && (text_[at_] == '(' || (text_[at_] != '%' && shapeFollows()))) {
        XlaShape unused;
        if (!shape(unused)) return false;
      }
      skip();
      const size_t begin = at_;
      const std::string_view operand = name();
      if (operand.empty()) return fail("an operand");
      auto it = named_.find(operand);
      if (it == named_.end()) return diags_.fail(kNoInstruction, range(begin, at_), operand);
      in.operands.push_back(it->second);
    } while (accept(","));
    return accept(")") ? true : fail("',' or ')' after an operand");
  }
  // Distinguishes "f32[" from a name.
  bool shapeFollows() const {
    size_t at = at_;
    while (at < text_.size() && (isNameChar(text_[at]))) ++at;
    return at > at_ && at < text_.size() && text_[at] == '[';
  }

  bool shape(XlaShape& out, int depth = 0) {
    if (depth > kDeepest) return fail("at most 256 nested tuples");
    if (accept("(")) {
      if (accept(")")) return true;
      do {
        if (!shape(out, depth + 1)) return false;
      } while (accept(","));
      return accept(")") ? true : fail("',' or ')' in a tuple's shape");
    }
    XlaArray a;
    skip();
    const size_t begin = at_;
    a.dtype = name();
    if (a.dtype.empty() || !accept("[")) return fail("a shape such as f32[8,4]");
    a.bits = bitsOf(a.dtype);
    if (!accept("]") && !dims(a)) return false;
    skip();
    if (at_ < text_.size() && text_[at_] == '{' && isLayout() && !pastBrackets()) return false;
    const auto count = checkedProduct(a.dims);
    const auto bits = count ? checkedMul(*count, a.bits) : std::nullopt;
    if (!bits) return diags_.fail(kTooLarge, range(begin, at_));
    a.bytes = *bits / 8 + (*bits % 8 != 0);
    out.push_back(std::move(a));
    return true;
  }
  bool dims(XlaArray& a) {
    do {
      accept("<="); // a dynamic dim: its bound
      skip();
      if (accept("?")) return fail("a static size");
      std::string_view rest = text_.substr(at_);
      const auto n = takeNumber<int64_t>(rest);
      if (!n || *n < 0) return fail("a size");
      at_ = text_.size() - rest.size();
      a.dims.push_back(*n);
    } while (accept(","));
    return accept("]") ? true : fail("',' or ']' after a size");
  }
  // A layout, {1,0} or {}; not the body of a computation, which begins with an instruction.
  bool isLayout() const {
    size_t at = at_ + 1;
    while (at < text_.size() && text_[at] == ' ') ++at;
    return at < text_.size() && (isDigit(text_[at]) || text_[at] == '}' || text_[at] == ':');
  }

  XlaModule& m_;
  const std::string_view text_;
  Diagnostics& diags_;
  size_t at_ = 0;
  uint32_t number_ = 0;
  std::unordered_map<std::string_view, uint32_t>
      named_; // of the current computation; keys are views of the text
};

} // namespace

uint32_t XlaModule::entry() const {
  for (size_t i = 0; i < computations.size(); ++i)
    if (computations[i].entry) return static_cast<uint32_t>(i);
  return static_cast<uint32_t>(computations.size() - 1);
}

bool looksLikeXlaHlo(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return false;
    text.remove_prefix(begin);
    if (!text.starts_with("//")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return text.starts_with("HloModule");
}

bool readXlaHlo(SourceText source, XlaModule& out, Diagnostics& diags) {
  out.source = std::move(source);
  return HloReader(out, diags).run();
}

std::string xlaMember(std::string_view value, std::string_view name) {
  for (size_t at = value.find(name); at != std::string_view::npos; at = value.find(name, at + 1)) {
    if (at > 0 && isNameChar(value[at - 1])) continue;
    size_t i = at + name.size();
    if (i >= value.size() || value[i] != '=') continue;
    ++i;
    std::string out;
    if (i < value.size() && value[i] == '"') {
      for (++i; i < value.size() && value[i] != '"'; ++i) {
        if (value[i] == '\\' && i + 1 < value.size()) ++i;
        out += value[i];
      }
      return out;
    }
    while (i < value.size() && (isNameChar(value[i]))) out += value[i++];
    return out;
  }
  return "";
}

} // namespace dtc
