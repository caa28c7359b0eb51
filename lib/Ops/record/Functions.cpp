// Generates include/dtc/Ops/OpFunctions.h from the records: one function per op.
#include "dtc/Ops/record/Ops.h"
#include <algorithm>
#include <set>

namespace dtc {

namespace {

const char* attrClass(AttrType t) {
  switch (t) {
  case AttrType::Int:
  case AttrType::Dim: return "IntAttr";
  case AttrType::Float: return "FloatAttr";
  case AttrType::Bool: return "BoolAttr";
  case AttrType::String: return "StringAttr";
  case AttrType::DTypeName: return "DTypeAttr";
  case AttrType::Size: return "SizeAttr";
  case AttrType::Ints:
  case AttrType::Dims: return "IntsAttr";
  case AttrType::Sizes: return "SizesAttr";
  case AttrType::Axes: return "AxesAttr";
  default: return "AnyAttr";
  }
}

struct Name {
  std::string name;
  enum Form : uint8_t { One, Optional, Any } form = One;
};

// "x, b?, rest..." as names.
std::vector<Name> namesOf(std::string_view text) {
  std::vector<Name> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(", "), text.size());
    std::string_view word = text.substr(0, comma);
    Name n;
    if (word.ends_with("...")) n.form = Name::Any, word.remove_suffix(3);
    if (word.ends_with("?")) n.form = Name::Optional, word.remove_suffix(1);
    n.name = word;
    names.push_back(std::move(n));
    text.remove_prefix(std::min(comma + 2, text.size()));
  }
  return names;
}

// The words of C++ that are names of ops get a trailing underscore.
std::string identifier(std::string_view name) {
  static constexpr std::string_view kReserved[] = {"and", "or", "xor", "not"};
  return std::string(name) + (std::ranges::find(kReserved, name) != std::end(kReserved) ? "_" : "");
}

std::string camelCase(std::string_view name) {
  std::string text;
  bool upper = true;
  for (char c : name) {
    if (c != '_') text += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return text;
}

class FunctionWriter {
public:
  explicit FunctionWriter(const OpRecord& r)
      : r_(r), operands_(namesOf(r.operands)), results_(namesOf(r.results)) {}

  std::string text() {
    readOperands();
    readAttributes();
    std::string call = site_ + ", \"" + r_.name + "\", {" + passed_ + "}";
    const bool typed = r_.typeWritten;
    if (!attributes_.empty() || rest_ || typed) call += ", {" + attributes_ + "}";
    if (rest_ || typed) call += rest_ ? ", &" + *rest_ : ", nullptr";
    if (typed) call += ", type";
    const auto [type, value] = result(call);
    return members() + "inline " + type + " " + identifier(r_.name) + "(" + parameters_ + ") { return " +
           value + "; }\n";
  }

private:
  void parameter(const std::string& text) { parameters_ += (parameters_.empty() ? "" : ", ") + text; }
  void pass(const std::string& text) { passed_ += (passed_.empty() ? "" : ", ") + text; }
  void member(const std::string& text) { members_ += (members_.empty() ? "" : " ") + text + ";"; }

  // The first operand has the Builder; optional ones are members.
  void readOperands() {
    const bool first = !operands_.empty() && operands_[0].form == Name::One;
    site_ = first ? operands_[0].name : "builder";
    if (!first) parameter("Builder& builder");
    const std::string type = r_.typeWritten ? "TypeId type" : "";
    if (!first && !type.empty()) parameter(type);
    for (const Name& n : operands_) {
      if (n.form == Name::Any) {
        parameter("const Values& " + n.name);
        rest_ = n.name;
      } else if (n.form == Name::Optional) {
        member("Arg " + n.name + " = {}");
        pass("args." + n.name);
      } else {
        parameter((&n == operands_.data() ? "Expr " : "Arg ") + n.name);
        pass(n.name);
        if (&n == operands_.data() && !type.empty()) parameter(type);
      }
    }
  }

  // A single required attribute is a parameter; others are members of a struct.
  void readAttributes() {
    const bool plain = members_.empty() && r_.attrs.size() == 1 && !r_.attrs[0].fallback;
    bool required = false;
    for (const AttrSpec& a : r_.attrs) {
      attributes_ += (attributes_.empty() ? "" : ", ") + std::string("{\"") + a.name + "\", " +
                     (plain ? "" : "args.") + a.name + "}";
      if (plain)
        parameter(std::string(attrClass(a.type)) + " " + a.name);
      else
        member(std::string(attrClass(a.type)) + " " + a.name + (a.fallback ? " = kDefault" : ""));
      required |= !a.fallback;
    }
    if (!members_.empty())
      parameter("const " + camelCase(r_.name) + "Args& args" + (required ? "" : " = {}"));
  }

  // The type of the function's result, and the call.
  std::pair<std::string, std::string> result(const std::string& call) const {
    const std::string append = "detail::append(" + call + ")";
    if (results_.empty()) return {"OpId", append};
    if (results_.size() == 1 && results_[0].form != Name::Any) return {"Expr", "detail::one(" + call + ")"};
    if (results_.back().form == Name::Any)
      return {"std::vector<Expr>", "detail::all(" + site_ + ", " + append + ")"};
    const std::string count = std::to_string(results_.size());
    return {"std::array<Expr, " + count + ">", "detail::each<" + count + ">(" + site_ + ", " + append + ")"};
  }

  std::string members() const {
    return members_.empty() ? "" : "struct " + camelCase(r_.name) + "Args { " + members_ + " };\n";
  }

  const OpRecord& r_;
  std::vector<Name> operands_, results_;
  std::string parameters_, passed_, members_, attributes_, site_;
  std::optional<std::string> rest_;
};

// All names, also of the ops without a function.
std::string nameLists(const OpRegistry& ops) {
  std::set<std::string_view> names, attributes;
  for (size_t k = 0; k < ops.size(); ++k) {
    names.insert(ops[static_cast<OpKind>(k)].name);
    for (const AttrSpec& a : ops[static_cast<OpKind>(k)].attrs) attributes.insert(a.name);
  }
  auto list = [](const char* name, const std::set<std::string_view>& all) {
    std::string text = std::string("inline constexpr std::string_view ") + name + "[] = {";
    for (std::string_view n : all) text += (n == *all.begin() ? "\"" : ", \"") + std::string(n) + "\"";
    return text + "};\n";
  };
  return list("kOpNames", names) + list("kAttributeNames", attributes);
}

} // namespace

std::string opFunctions(const OpRegistry& ops) {
  std::string text =
      "#pragma once\n"
      "// One function per op. Generated by `dtc opt --op-functions` from the records in lib/Ops, and "
      "checked by a test.\n"
      "// clang-format off\n"
      "#include \"dtc/Ops/Expr.h\"\n\n"
      "namespace dtc::ops {\n\n";
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    // Not those whose results are written, nor what only the scheduler creates.
    const bool special = r.regions != RegionKind::None || r.isCall || r.async == AsyncForm::Start ||
                         std::string_view(r.family) == "custom";
    if (!special) text += FunctionWriter(r).text();
  }
  return text + "\n" + nameLists(ops) + "\n} // namespace dtc::ops\n";
}

} // namespace dtc
