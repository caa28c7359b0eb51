#include "dtc/Ops/record/GradientText.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Result.h"
#include <algorithm>

namespace dtc {

namespace {

std::string_view withoutSpaces(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

class GradientBuilder {
public:
  GradientBuilder(Builder& b, const OpQuery& op, std::span<const std::pair<std::string_view, ValueId>> values)
      : b_(b), op_(op) {
    for (const auto& [name, value] : values) define(name, value);
  }
  void define(std::string_view name, ValueId value) {
    names_.push_back(name);
    values_.push_back(value);
  }
  ValueId build(std::string_view text) {
    const ScalarExpr e = parseNamed(text, names_);
    std::vector<ops::Arg> made;
    for (const ScalarNode& n : e.nodes) made.push_back(node(e, n, made));
    DTC_CHECK(!made.back().isNumber(), "a cotangent is a number");
    return made.back().id();
  }

private:
  ops::Arg node(const ScalarExpr& e, const ScalarNode& n, const std::vector<ops::Arg>& made) {
    if (n.kind == ScalarNode::Operand) return values_[n.position];
    if (n.kind == ScalarNode::Number) return n.number;
    if (n.kind == ScalarNode::Attribute) return op_.numberOf(n.name).value_or(0);
    DTC_CHECK(n.kind == ScalarNode::Call, "an expression that gradients do not have");
    if (n.name == "neg" && e.nodes[n.args[0]].kind == ScalarNode::Number) return -e.nodes[n.args[0]].number;
    std::vector<ops::Arg> args;
    for (size_t i = 0; i < n.arity; ++i) args.push_back(made[n.args[i]]);
    const ops::Values operands(std::move(args));
    return ops::detail::one(b_, n.name.c_str(), {}, {}, &operands);
  }

  Builder& b_;
  const OpQuery& op_;
  std::vector<std::string_view> names_;
  std::vector<ValueId> values_;
};

} // namespace

GradientText::GradientText(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view statement = withoutSpaces(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    // `a = b` is a definition, unlike `a == b` and `a <= b`.
    const size_t equal = statement.find(" = ");
    if (equal == std::string_view::npos)
      cotangents.push_back(statement);
    else
      definitions.emplace_back(statement.substr(0, equal), statement.substr(equal + 3));
  }
}

bool GradientText::isFormula(std::string_view cotangent) {
  return cotangent != "none" && cotangent != "unknown";
}

std::vector<ValueId> GradientText::build(Builder& b, const OpQuery& op,
                                         std::span<const std::pair<std::string_view, ValueId>> values) const {
  GradientBuilder builder(b, op, values);
  for (const auto& [name, text] : definitions) builder.define(name, builder.build(text));
  std::vector<ValueId> out;
  for (std::string_view text : cotangents) out.push_back(isFormula(text) ? builder.build(text) : ValueId());
  return out;
}

} // namespace dtc
