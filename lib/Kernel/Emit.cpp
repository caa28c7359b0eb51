#include "Emit.h"
#include "dtc/Ops/Scalar.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace dtc {

using namespace loops;

const char* reduceName(ReduceKind kind) {
  static constexpr const char* names[] = {"sum", "prod",        "max",    "min",    "any",
                                          "all", "log_add_exp", "argmax", "argmin", "last"};
  return names[static_cast<int>(kind)];
}

bool isCostly(const std::string& function) {
  static const std::set<std::string, std::less<>> names = {
      "exp",           "exp2",      "expm1",      "log",       "log2", "log1p",   "sin",      "cos",
      "tan",           "asin",      "acos",       "atan",      "sinh", "cosh",    "tanh",     "erf",
      "erfc",          "pow",       "atan2",      "fmod",      "rem",  "mod",     "random32", "random64",
      "random_normal", "asinh",     "acosh",      "atanh",     "cbrt", "erf_inv", "lgamma",   "digamma",
      "zeta",          "polygamma", "bessel_i0e", "bessel_i1e"};
  return names.contains(function);
}

bool hasWord(const std::string& text, const std::string& word) {
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || (!isWord(text[at - 1]) && text[at - 1] != '.')) &&
        (end == text.size() || !isWord(text[end])))
      return true;
  }
  return false;
}

std::vector<SizeFormula::Factor> factorsOf(const Size& s) {
  std::vector<SizeFormula::Factor> r;
  if (s.number != 1 || s.args.empty()) r.push_back({s.number, -1, 1});
  for (uint32_t a : s.args) r.push_back({1, static_cast<int32_t>(a), 1});
  return r;
}

std::string Emitter::fresh(const std::string& base) { return base + std::to_string(freshCount_[base]++); }

void Emitter::line(Scope& s, const std::string& text) { s.text += indentText(s.indent) + text + "\n"; }

std::string Emitter::bufferText(uint32_t b) const {
  return b < k_.numInputs ? "in" + std::to_string(b) : "out" + std::to_string(b - k_.numInputs);
}

std::string Emitter::sizeText(const Size& s) const {
  std::string text = s.number == 1 && !s.args.empty() ? "" : std::to_string(s.number);
  for (uint32_t a : s.args) text += (text.empty() ? "n" : " * n") + std::to_string(a);
  return text;
}

std::string Emitter::literalText(const Node& n) {
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

std::string Emitter::identityText(ReduceKind kind, DType type) {
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

std::string Emitter::neutralText(ReduceKind kind, DType type) {
  if (kind != ReduceKind::Sum || !isFloat(type)) return identityText(kind, type);
  return literalText(Node{.type = type, .number = -0.0});
}

std::string Emitter::splat(const Value& v, DType type, bool wanted) const {
  if (v.vector || !wanted || lanes() == 1) return v.text;
  return "(" + vectorType(type) + ")" + wrapped(v);
}

std::string Emitter::affineText(AffineId a, Scope& s, bool scalarOnly) {
  std::string text;
  auto add = [&](const Size& coefficient, const std::string& what) {
    const bool minus = coefficient.number < 0;
    const Size size{minus ? -coefficient.number : coefficient.number, coefficient.args};
    text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    if (what.empty())
      text += sizeText(size);
    else
      text += size.is(1) ? what : what + " * " + sizeText(size);
  };
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::OfAxis && atZero_ != t.id)
      add(t.coefficient, axisText(static_cast<AxisId>(t.id)));
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::OfNode && !(scalarOnly && inLanes(t, s)))
      add(t.coefficient, wrapped(emit(NodeId(t.id), s)));
  for (const AffineTerm& t : k_[a].terms)
    if (t.kind == AffineTerm::One) add(t.coefficient, "");
  return text.empty() ? "0" : text;
}

// As an i64, or i64 lanes where the axis in the lanes stands in it.
Emitter::Value Emitter::indexValue(AffineId a, Scope& s) {
  const bool vector = lanes() > 1 && s.vector >= 0 && (k_.dependsOn(a) >> s.vector & 1);
  const std::string scalar = affineText(a, s, vector);
  if (!vector && indexType() == "i64")
    return {scalar, false, k_[a].terms.size() == 1 && k_[a].terms[0].coefficient.is(1)};
  if (!vector) return {"(i64)(" + scalar + ")", false, true};
  std::string text = scalar == "0" ? "" : "(" + vectorType(DType::I64) + ")(" + scalar + ")";
  auto add = [&](const std::string& what, const Size& coefficient) {
    text += (text.empty() ? "" : " + ") + what + (coefficient.is(1) ? "" : " * " + sizeText(coefficient));
  };
  for (const AffineTerm& t : k_[a].terms) {
    if (t.kind == AffineTerm::OfAxis && static_cast<int>(t.id) == s.vector)
      add("dtc_iota<" + vectorType(DType::I64) + ">()", t.coefficient);
    if (inLanes(t, s)) add(emit(NodeId(t.id), s).text, t.coefficient);
  }
  return {text, true, false};
}

bool Emitter::inLanes(const AffineTerm& t, const Scope& s) const {
  return t.kind == AffineTerm::OfNode && lanes() > 1 && s.vector >= 0 &&
         (k_.dependsOn(NodeId(t.id)) >> s.vector & 1);
}

Emitter::Value Emitter::emit(NodeId n, Scope& s) {
  for (Scope* p = &s; p; p = p->parent)
    if (auto it = p->names.find(n.index); it != p->names.end()) return it->second;
  Scope* home = &s;
  while (home->parent && (k_.dependsOn(n) & ~home->parent->bound) == 0) home = home->parent;
  const Node& node = k_[n];
  if (node.kind == NodeKind::Number) return {literalText(node), false, true};
  if (node.kind == NodeKind::Reduce) return emitReduce(n, *home);
  if (std::optional<Value> v = cached(n, *home)) return home->names[n.index] = *v;
  Value v = compute(n, *home);
  const bool inside = home == &s && uses_[n.index] <= 1 && v.text.size() < 60;
  const bool trivial = node.kind == NodeKind::Index && v.text.size() < 24;
  if (!trivial && !inside) {
    std::string base = node.kind == NodeKind::Call ? node.function : node.kind == NodeKind::Load ? "x" : "at";
    const std::string name = fresh(base + (base.back() >= '0' && base.back() <= '9' ? "_" : ""));
    line(*home, "const " + (v.vector ? vectorType(node.type) : typeText(node.type)) + " " + name + " = " +
                    v.text + ";");
    v = {name, v.vector, true};
    home->names[n.index] = v;
  }
  computed(n, *home, v);
  return v;
}

Emitter::Value Emitter::compute(NodeId n, Scope& s) {
  const Node& node = k_[n];
  const bool vector = lanes() > 1 && s.vector >= 0 && (k_.dependsOn(n) >> s.vector & 1);
  switch (node.kind) {
  case NodeKind::Index: return indexValue(node.affine, s);
  case NodeKind::FloorDiv:
  case NodeKind::Mod: {
    const Value x = emit(node.args[0], s);
    const std::string by = "i64(" + std::to_string(node.integer) + ")";
    return {std::string(node.kind == NodeKind::Mod ? "dtc_mod(" : "dtc_floor_div(") +
                splat(x, DType::I64, vector) + ", " + splat({by, false, true}, DType::I64, vector) + ")",
            vector, true};
  }
  case NodeKind::Load: return loadText(node, s, vector);
  case NodeKind::Call: return callText(node, s, vector);
  case NodeKind::Number:
  case NodeKind::Running: // bound where its loop was opened
  case NodeKind::Reduce: break;
  }
  return {literalText(node), false, true};
}

Emitter::Value Emitter::callText(const Node& node, Scope& s, bool vector) {
  std::vector<Value> args;
  for (NodeId a : node.args) args.push_back(emit(a, s));
  if (node.function == "convert")
    return {"dtc_convert<" + typeText(node.target) + ">(" + args[0].text + ")", vector, true};
  if (node.function == "bitcast")
    return {"dtc_reinterpret<" + typeText(node.target) + ", " + typeText(node.source) + ">(" + args[0].text +
                ")",
            vector, true};
  std::string name = nearFunction(node);
  const Intrinsic* fn = findIntrinsic(node.function);
  if (name.empty() && fn && fn->infix && isFloat(node.type)) // of floats: C++ means the same
    return {wrapped(args[0]) + " " + fn->infix + " " + wrapped(args[1]), vector, false};
  if (name.empty()) name = node.function;
  if (name == "pow" && !isFloat(node.type)) name = "pow_int";
  std::string text = "dtc_" + name + "(";
  for (size_t i = 0; i < args.size(); ++i)
    text += (i ? ", " : "") + splat(args[i], k_[node.args[i]].type, vector);
  return {text + ")", vector, true};
}

bool liesInPacks(const Kernel& k, AffineId address, AxisId lane, int64_t count) {
  const Kernel::Stride stride = k.strideOf(address, lane);
  if (stride.mixed || !stride.size.is(1)) return false;
  return std::all_of(k[address].terms.begin(), k[address].terms.end(), [&](const AffineTerm& t) {
    return (t.kind == AffineTerm::OfAxis && t.id == lane) ||
           (t.coefficient.isStatic() && t.coefficient.number % count == 0);
  });
}

} // namespace dtc
