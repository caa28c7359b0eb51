// Statements, sizes, literals and combinations as text.
#include "print/Text.h"

#include "dtc/IR/Element.h"
#include <charconv>
#include <cmath>

namespace dtc {

using namespace loops;

void line(Text& t, const std::string& statement) { t.text += indentText(t.indent) + statement + "\n"; }

void append(Text& t, const Text& inner) {
  t.text += inner.text;
  t.used.insert(inner.used.begin(), inner.used.end());
}

std::string use(Text& t, const std::string& name) {
  t.used.insert(name);
  return name;
}

std::string indentText(int depth) { return std::string(static_cast<size_t>(2 * depth), ' '); }

std::string sizeText(const Size& s) {
  std::string text = s.number == 1 && !s.args.empty() ? "" : std::to_string(s.number);
  for (uint32_t a : s.args) text += (text.empty() ? "n" : " * n") + std::to_string(a);
  return text;
}

std::string bufferText(const Kernel& k, uint32_t b) {
  return b < k.numInputs ? "in" + std::to_string(b) : "out" + std::to_string(b - k.numInputs);
}

std::string pointerText(const Kernel& k, uint32_t buffer, const std::string& at) {
  return bufferText(k, buffer) + (at == "0" ? "" : " + " + at);
}

std::string literalText(const Node& n) {
  if (n.type == DType::Bool) return n.integer ? "true" : "false";
  if (!isFloat(n.type)) {
    const std::string digits = isUnsignedInt(n.type) ? std::to_string(static_cast<uint64_t>(n.integer)) + "u"
                               : n.integer == INT64_MIN ? "(-9223372036854775807 - 1)"
                                                        : std::to_string(n.integer);
    return n.type == DType::I32 && n.integer != INT32_MIN
               ? digits
               : typeText(n.type) + "(" + digits + (n.type == DType::U64 ? "ll" : "") + ")";
  }
  const bool isDouble = n.type == DType::F64;
  if (std::isnan(n.number)) return "dtc_quiet_nan<" + typeText(n.type) + ">()";
  if (std::isinf(n.number))
    return (n.number < 0 ? "-dtc_infinity<" : "dtc_infinity<") + typeText(n.type) + ">()";
  char digits[40];
  char* end = isDouble ? std::to_chars(digits, digits + sizeof digits, n.number).ptr
                       : std::to_chars(digits, digits + sizeof digits, static_cast<float>(n.number)).ptr;
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return isDouble ? text : text + "f";
}

const char* reduceName(ReduceKind kind) {
  static constexpr const char* names[] = {"sum", "prod",        "max",    "min",    "any",
                                          "all", "log_add_exp", "argmax", "argmin", "last"};
  return names[static_cast<int>(kind)];
}

std::string identityText(ReduceKind kind, DType type) {
  const std::string t = typeText(type);
  switch (kind) {
  case ReduceKind::Sum: return literalText(Node{.type = type});
  case ReduceKind::Prod:
    return literalText(isFloat(type) ? Node{.type = type, .number = 1} : Node{.type = type, .integer = 1});
  case ReduceKind::Last:
  case ReduceKind::Any: return "false";
  case ReduceKind::All: return "true";
  case ReduceKind::LogAddExp:
  case ReduceKind::Max:
  case ReduceKind::ArgMax:
    if (isFloat(type)) return "-dtc_infinity<" + t + ">()";
    return literalText(Node{.type = type, .integer = isBool(type) ? 0 : intMin(type)});
  case ReduceKind::Min:
  case ReduceKind::ArgMin:
    if (isFloat(type)) return "dtc_infinity<" + t + ">()";
    return literalText(Node{.type = type, .integer = isBool(type) ? 1 : intMax(type)});
  }
  return "0";
}

std::string neutralText(ReduceKind kind, DType type) {
  if (kind != ReduceKind::Sum || !isFloat(type)) return identityText(kind, type);
  return literalText(Node{.type = type, .number = -0.0});
}

const char* combineName(ReduceKind kind) {
  static constexpr const char* names[] = {"add", "mul", "max", "min", "or", "and", "log_add_exp"};
  return names[static_cast<size_t>(kind)];
}

std::string combined(ReduceKind kind, DType type, const std::string& a, const std::string& b) {
  if (isFloat(type) && kind <= ReduceKind::Prod) return a + (kind == ReduceKind::Sum ? " + " : " * ") + b;
  return std::string("dtc_") + combineName(kind) + "(" + a + ", " + b + ")";
}

std::string accumulated(ReduceKind kind, DType type, const std::string& acc, const std::string& x) {
  if (isFloat(type) && kind <= ReduceKind::Prod)
    return acc + (kind == ReduceKind::Sum ? " += " : " *= ") + x + ";";
  return acc + " = " + combined(kind, type, acc, x) + ";";
}

} // namespace dtc
