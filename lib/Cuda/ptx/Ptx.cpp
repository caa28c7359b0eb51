#include "Ptx.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

namespace dtc::ptx {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view s) {
  const size_t begin = s.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(kBlanks) + 1 - begin);
}

std::vector<std::string_view> split(std::string_view s, char at) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '{' || s[i] == '[' || s[i] == '(') ++depth;
    if (s[i] == '}' || s[i] == ']' || s[i] == ')') --depth;
    if (s[i] == at && depth == 0) parts.push_back(trimmed(s.substr(begin, i - begin))), begin = i + 1;
  }
  if (const auto last = trimmed(s.substr(begin)); !last.empty() || !parts.empty()) parts.push_back(last);
  return parts;
}

std::string withoutComments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//")
      i = std::min(text.find('\n', i), text.size()) - 1;
    else if (text.substr(i, 2) == "/*")
      i = std::min(text.find("*/", i), text.size() - 2) + 1;
    else
      out += text[i];
  }
  return out;
}

std::optional<Type> typeOf(std::string_view word) {
  if (word == "pred") return Type{'p', 1};
  if (word == "bf16" || word == "bf16x2") return Type{'f', word == "bf16" ? 16 : 32};
  if (word == "f16x2") return Type{'f', 32};
  if (word == "e4m3x2" || word == "e5m2x2") return Type{'f', 16};
  if (word.size() < 2 || std::string_view("usbf").find(word[0]) == std::string_view::npos)
    return std::nullopt;
  const int bits = std::atoi(std::string(word.substr(1)).c_str());
  for (int known : {8, 16, 32, 64, 128})
    if (bits == known && std::to_string(bits) == word.substr(1)) return Type{word[0], bits};
  return std::nullopt;
}

struct Row {
  std::string_view word;
  Op op;
};
constexpr Row kOps[] = {
    {"mov", Op::Mov},
    {"add", Op::Add},
    {"sub", Op::Sub},
    {"mul", Op::Mul},
    {"mad", Op::Mad},
    {"shl", Op::Shl},
    {"shr", Op::Shr},
    {"and", Op::And},
    {"or", Op::Or},
    {"xor", Op::Xor},
    {"not", Op::Not},
    {"neg", Op::Neg},
    {"min", Op::Min},
    {"max", Op::Max},
    {"abs", Op::Abs},
    {"div", Op::Div},
    {"rem", Op::Rem},
    {"setp", Op::Setp},
    {"selp", Op::Selp},
    {"cvt", Op::Cvt},
    {"cvta", Op::Cvta},
    {"ld", Op::Load},
    {"ldu", Op::Load},
    {"st", Op::Store},
    {"atom", Op::Atomic},
    {"red", Op::Atomic},
    {"bra", Op::Branch},
    {"ret", Op::Exit},
    {"exit", Op::Exit},
    {"trap", Op::Exit},
    {"bar", Op::Barrier},
    {"barrier", Op::Barrier},
    {"ldmatrix", Op::LoadMatrix},
    {"mma", Op::Mma},
    {"wgmma", Op::Mma},
    {"shfl", Op::Shuffle},
    {"activemask", Op::ActiveMask},
    {"ex2", Op::Special},
    {"lg2", Op::Special},
    {"rcp", Op::Special},
    {"rsqrt", Op::Special},
    {"sqrt", Op::Special},
    {"sin", Op::Special},
    {"cos", Op::Special},
    {"tanh", Op::Special},
    {"call", Op::Call},
};

// m16n8k16: 2 * 16 * 8 * 16 operations of a warp.
int64_t mmaFlops(std::string_view shape) {
  int64_t product = 2;
  for (size_t i = 0; i < shape.size();) {
    if (std::string_view("mnk").find(shape[i]) == std::string_view::npos) return 0;
    const size_t begin = ++i;
    while (i < shape.size() && shape[i] >= '0' && shape[i] <= '9') ++i;
    product *= std::atoi(std::string(shape.substr(begin, i - begin)).c_str());
  }
  return product;
}

bool has(const std::vector<std::string_view>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

Space spaceOf(const std::vector<std::string_view>& words) {
  if (has(words, "global")) return Space::Global;
  for (std::string_view w : words)
    if (w.starts_with("shared")) return Space::Shared;
  if (has(words, "local")) return Space::Local;
  if (has(words, "param")) return Space::Param;
  return has(words, "const") ? Space::Constant : Space::Generic;
}

void decodeCopy(Instruction& i, const std::vector<std::string_view>& words) {
  i.op = has(words, "commit_group")                           ? Op::CopyCommit
         : has(words, "wait_group") || has(words, "wait_all") ? Op::CopyWait
                                                              : Op::CopyAsync;
  i.space = Space::Global;
}

// What the words of an opcode say: "ld.global.v4.f32".
void decode(Instruction& i) {
  const std::vector<std::string_view> words = split(i.opcode, '.');
  for (const Row& r : kOps)
    if (r.word == words[0]) i.op = r.op;
  std::vector<Type> types;
  int count = 1;
  for (std::string_view w : words) {
    if (const auto t = typeOf(w)) types.push_back(*t);
    if (w == "v2" || w == "x2") count = 2;
    if (w == "v4" || w == "x4") count = 4;
    if (w == "v8") count = 8;
  }
  if (!types.empty()) i.type = types.front(), i.from = types.back();
  if (i.op == Op::Setp && words.size() > 1) i.compare = words[1];
  if (i.op == Op::Mul || i.op == Op::Mad) {
    if (has(words, "wide")) i.op = i.op == Op::Mul ? Op::MulWide : Op::MadWide;
    if (has(words, "hi")) i.op = i.op == Op::Mul ? Op::MulHi : Op::Other;
  }
  i.space = spaceOf(words);
  i.accessBytes = i.type.bits * count / 8;
  if (words[0] == "cp" && has(words, "async")) decodeCopy(i, words);
  if (i.op == Op::LoadMatrix) i.accessBytes = 4 * count; // 8 x 8 elements of 16 bits, by 32 threads
  if (i.op == Op::Barrier && has(words, "cluster")) i.op = Op::ClusterBarrier;
  if (i.op == Op::Mma)
    for (std::string_view w : words)
      if (w.starts_with("m") && w.find('n') != std::string_view::npos &&
          w.find('k') != std::string_view::npos)
        i.flops = std::max(i.flops, mmaFlops(w));
}

class Body {
public:
  explicit Body(Kernel& k) : k_(k) {}

  // Text between the braces of an entry.
  void read(std::string_view text) {
    while (!(text = trimmed(text)).empty()) {
      if (text[0] == '{' || text[0] == '}') { // a scope of inline assembly
        text.remove_prefix(1);
        continue;
      }
      const size_t end = std::min(text.find(';'), text.size());
      const size_t colon = text.find(':');
      if (colon < end && isLabel(text.substr(0, colon))) {
        labels_[std::string(trimmed(text.substr(0, colon)))] = static_cast<int>(k_.code.size());
        text.remove_prefix(colon + 1);
        continue;
      }
      if (text.starts_with(".loc") || text.starts_with(".file")) {
        text.remove_prefix(std::min(text.find('\n'), text.size()));
        continue;
      }
      statement(trimmed(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (size_t i = 0; i < k_.code.size(); ++i)
      if (k_.code[i].op == Op::Branch && !k_.code[i].operands.empty())
        if (auto at = labels_.find(k_.code[i].operands[0].name); at != labels_.end())
          k_.code[i].target = at->second;
    k_.registers = static_cast<int>(registers_.size());
  }

private:
  static bool isLabel(std::string_view s) {
    s = trimmed(s);
    return !s.empty() && s.find_first_of(" \t\n,[{%") == std::string_view::npos;
  }

  int registerOf(std::string_view name) {
    return registers_.try_emplace(std::string(name), static_cast<int>(registers_.size())).first->second;
  }

  void declare(std::string_view s) { // .reg .pred p, q: names without %
    const size_t type = s.find('.', 1);
    const size_t names = type == std::string_view::npos ? type : s.find_first_of(kBlanks, type);
    if (names == std::string_view::npos) return;
    for (std::string_view name : split(s.substr(names), ','))
      if (!name.empty() && name[0] != '%') registerOf(name);
  }

  void statement(std::string_view s) {
    if (s.empty()) return;
    if (s[0] == '.') {
      if (s.starts_with(".reg")) declare(s);
      return;
    }
    Instruction i;
    if (s[0] == '@') {
      const size_t blank = s.find_first_of(kBlanks);
      std::string_view guard = s.substr(1, blank - 1);
      i.guardNegated = guard.starts_with("!");
      i.guard = registerOf(guard.substr(i.guardNegated ? 1 : 0));
      s = trimmed(s.substr(blank));
    }
    const size_t blank = std::min(s.find_first_of(kBlanks), s.size());
    i.opcode = s.substr(0, blank);
    decode(i);
    if (i.op != Op::Call)
      for (std::string_view o : split(s.substr(blank), ',')) i.operands.push_back(operand(o));
    k_.code.push_back(std::move(i));
  }

  static std::optional<int64_t> number(std::string_view s) {
    const std::string text(s);
    if (s.starts_with("0f") || s.starts_with("0F") || s.starts_with("0d") || s.starts_with("0D"))
      return static_cast<int64_t>(std::strtoull(text.c_str() + 2, nullptr, 16));
    char* end = nullptr;
    const bool negative = s.starts_with("-");
    const auto value = negative ? std::strtoll(text.c_str(), &end, 0)
                                : static_cast<int64_t>(std::strtoull(text.c_str(), &end, 0));
    if (end == text.c_str() || (*end != '\0' && *end != 'U')) return std::nullopt;
    return value;
  }

  Operand memory(std::string_view s) {
    Operand o{Operand::Memory};
    const size_t plus = s.find('+');
    const std::string_view base = trimmed(s.substr(0, plus));
    if (plus != std::string_view::npos) o.value = number(trimmed(s.substr(plus + 1))).value_or(0);
    if (const auto n = number(base))
      o.value += *n;
    else if (base.starts_with("%") || registers_.contains(std::string(base)))
      o.reg = registerOf(base);
    else
      o.name = base;
    return o;
  }

  Operand operand(std::string_view s) {
    if (const size_t bar = s.find('|'); bar != std::string_view::npos && s[0] != '[')
      s = trimmed(s.substr(0, bar));
    Operand o;
    if (s.empty() || s == "_") return o;
    if (s[0] == '!') {
      o = operand(trimmed(s.substr(1)));
      o.negated = !o.negated;
      return o;
    }
    if (s[0] == '[') return memory(s.substr(1, s.find(']') - 1));
    if (s[0] == '{') {
      o.kind = Operand::Vector;
      for (std::string_view part : split(s.substr(1, s.rfind('}') - 1), ','))
        o.parts.push_back(operand(part));
      return o;
    }
    if (const auto n = number(s)) return {.kind = Operand::Immediate, .value = *n};
    if (s[0] == '%' && s.find_first_of("0123456789") == std::string_view::npos)
      return {.kind = Operand::Special, .name = std::string(s.substr(1))};
    if (s[0] == '%' || registers_.contains(std::string(s)))
      return {.kind = Operand::Register, .reg = registerOf(s)};
    return {.kind = Operand::Symbol, .name = std::string(s)};
  }

  Kernel& k_;
  std::map<std::string, int, std::less<>> registers_, labels_;
};

size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return i;
  }
  return text.size();
}

// Calls fn(name, header, body) for each entry.
template <class Fn> void forEachEntry(std::string_view text, Fn&& fn) {
  for (size_t at = 0; (at = text.find(".entry", at)) != std::string_view::npos;) {
    const size_t name = std::min(text.find_first_not_of(kBlanks, at + 6), text.size());
    const size_t nameEnd = std::min(text.find_first_of("( \t\r\n{", name), text.size());
    const size_t open = std::min(text.find('{', nameEnd), text.size());
    const size_t end = closing(text, open);
    if (open < text.size())
      fn(text.substr(name, nameEnd - name), text.substr(nameEnd, open - nameEnd),
         text.substr(open + 1, end - open - 1));
    at = end;
  }
}

Kernel kernelOf(std::string_view name, std::string_view header, std::string_view body) {
  Kernel k;
  k.name = name;
  for (size_t at = 0; (at = header.find(".param", at)) != std::string_view::npos; ++at) ++k.params;
  Body(k).read(body);
  return k;
}

} // namespace

bool Instruction::writes() const {
  switch (op) {
  case Op::Store:
  case Op::Branch:
  case Op::Exit:
  case Op::Barrier:
  case Op::ClusterBarrier:
  case Op::CopyAsync:
  case Op::CopyCommit:
  case Op::CopyWait:
  case Op::Call: return false;
  case Op::Atomic: return !opcode.starts_with("red");
  default: return !operands.empty();
  }
}

std::vector<Kernel> parse(std::string_view text) {
  const std::string plain = withoutComments(text);
  std::vector<Kernel> kernels;
  forEachEntry(plain,
               [&](auto name, auto header, auto body) { kernels.push_back(kernelOf(name, header, body)); });
  return kernels;
}

Kernel parseKernel(std::string_view text, std::string_view wanted) {
  const std::string plain = withoutComments(text);
  Kernel kernel;
  forEachEntry(plain, [&](auto name, auto header, auto body) {
    if (name == wanted) kernel = kernelOf(name, header, body);
  });
  return kernel;
}

bool isWideDivision(const Instruction& i) {
  return (i.op == Op::Div || i.op == Op::Rem) && i.type.bits == 64 && i.type.kind != 'f';
}

// Tarjan's algorithm with an explicit stack, one node per instruction.
std::vector<bool> inLoops(const Kernel& k) {
  const int n = static_cast<int>(k.code.size());
  std::vector<int> number(n, -1), low(n, 0), stack;
  std::vector<bool> onStack(n, false), looping(n, false);
  const auto next = [&](int i, int which) { // 0: the following one, 1: the target; -1: none
    const Instruction& in = k.code[i];
    const bool leaves = in.guard < 0 && (in.op == Op::Branch || in.op == Op::Exit);
    if (which == 0) return leaves || i + 1 >= n ? -1 : i + 1;
    return in.op == Op::Branch && in.target >= 0 && in.target < n ? in.target : -1;
  };
  int count = 0;
  std::vector<std::pair<int, int>> work; // node, the next edge
  if (n > 0) work.push_back({0, 0});
  while (!work.empty()) {
    auto& [i, edge] = work.back();
    if (edge == 0 && number[i] < 0) number[i] = low[i] = count++, stack.push_back(i), onStack[i] = true;
    if (edge < 2) {
      const int to = next(i, edge++);
      if (to < 0) continue;
      if (number[to] < 0)
        work.push_back({to, 0});
      else if (onStack[to])
        low[i] = std::min(low[i], number[to]), looping[i] = looping[i] || to == i;
      continue;
    }
    const int done = i;
    work.pop_back();
    if (!work.empty()) low[work.back().first] = std::min(low[work.back().first], low[done]);
    if (low[done] != number[done]) continue;
    const bool several = stack.back() != done;
    for (int member = -1; member != done;) {
      member = stack.back();
      stack.pop_back();
      onStack[member] = false;
      looping[member] = looping[member] || several;
    }
  }
  return looping;
}

} // namespace dtc::ptx
