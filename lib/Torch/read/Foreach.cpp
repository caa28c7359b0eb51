#include "read/Foreach.h"

#include "read/Views.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr std::string_view kPrefix = "aten._foreach_";

// The name of an argument in the op on one tensor.
std::string argumentName(std::string_view op, const std::string& name) {
  const bool fused = op.starts_with("addc"); // addcmul, addcdiv
  if (name == "scalar" || name == "scalars" || name == "other") {
    if (fused) return "value";
    if (op.starts_with("clamp_min")) return "min";
    if (op.starts_with("clamp_max")) return "max";
    return "other";
  }
  if (name == "tensors1") return "end";
  if (name == "weights") return "weight";
  return name;
}

// maximum and minimum, which have no forms with a number, are clamp_min and clamp_max.
std::string opName(std::string_view foreach) {
  std::string op(foreach.substr(kPrefix.size()));
  if (op.starts_with("maximum")) op.replace(0, 7, "clamp_min");
  if (op.starts_with("minimum")) op.replace(0, 7, "clamp_max");
  return foreach == "aten._foreach_norm" ? "linalg_vector_norm" : op;
}

template <class T> bool takeElement(ImportAttribute& a, size_t i) {
  const auto* list = std::get_if<std::vector<T>>(&a);
  if (!list) return true;
  if (i >= list->size()) return false;
  T one = (*list)[i];
  a = one;
  return true;
}

class Expansion {
public:
  Expansion(ImportFile& file, const ImportNode& node)
      : file_(file), n_(node), op_(opName(withoutOverload(node.target))), inPlace_(op_.ends_with('_')) {}

  // Empty: the op has a form that is not expanded.
  std::vector<ImportNode> nodes() {
    const auto* list = tensors();
    if (!list || (!inPlace_ && n_.results.size() != list->size())) return {};
    for (size_t i = 0; i < list->size(); ++i)
      if (!(*list)[i].valid() || !add(i, (*list)[i])) return {};
    return std::move(out_);
  }

private:
  // The list that says how many there are: pow of a number has only a list of exponents.
  const std::vector<ImportValueRef>* tensors() const {
    for (const char* name : {"self", "exponent"})
      if (const ImportArgument* a = argumentOf(n_, name))
        if (const auto* list = std::get_if<std::vector<ImportValueRef>>(&a->value)) return list;
    return nullptr;
  }

  ImportNode made(std::string_view op, ImportValueRef result) const {
    ImportNode one;
    one.target = "aten." + std::string(op) + ".default", one.written = n_.target;
    one.name = n_.name, one.location = n_.location;
    one.results = {result};
    return one;
  }

  ImportValueRef likeValue(ImportValueRef v) {
    file_.values.push_back(ImportValue(file_.values[v.index]));
    return ImportValueRef{static_cast<uint32_t>(file_.values.size() - 1)};
  }

  bool add(size_t i, ImportValueRef tensor) {
    std::vector<ImportArgument> arguments;
    for (const ImportArgument& a : n_.arguments) {
      ImportArgument mine{argumentName(op_, a.name), a.value};
      if (!takeElement<ImportValueRef>(mine.value, i) || !takeElement<ImportInt>(mine.value, i) ||
          !takeElement<double>(mine.value, i) || !takeElement<bool>(mine.value, i))
        return false;
      if (a.name == "scalars" && std::holds_alternative<ImportValueRef>(a.value) && !select(mine.value, i))
        return false;
      arguments.push_back(std::move(mine));
    }
    const ImportValueRef result = inPlace_ ? likeValue(tensor) : n_.results[i];
    if (op_ == "powsum") return powerSum(std::move(arguments), tensor, result);
    out_.push_back(made(op_, result));
    out_.back().arguments = std::move(arguments);
    return true;
  }

  // Element i of a tensor of numbers.
  bool select(ImportAttribute& tensor, size_t i) {
    const auto from = std::get<ImportValueRef>(tensor);
    const ImportValueRef element = likeValue(from);
    ImportValue& v = file_.values[element.index];
    if (!v.type || v.type->rank() != 1) return false;
    v.type->dims.clear();
    v.strides = std::vector<ImportInt>();
    out_.push_back(made("select", element));
    out_.back().arguments = {
        {"self", tensor}, {"dim", number(0)}, {"index", number(static_cast<int64_t>(i))}};
    tensor = element;
    return true;
  }

  // sum(|x|^ord)
  bool powerSum(std::vector<ImportArgument> given, ImportValueRef tensor, ImportValueRef result) {
    const ImportValueRef size = likeValue(tensor), power = likeValue(tensor);
    ImportNode abs = made("abs", size), pow = made("pow", power), sum = made("sum", result);
    abs.arguments = {{"self", tensor}};
    pow.arguments = {{"self", size}, {"exponent", number(2)}};
    sum.arguments = {{"self", power}};
    for (ImportArgument& a : given) {
      if (a.name == "ord") pow.arguments[1].value = std::move(a.value);
      if (a.name == "dtype") sum.arguments.push_back(std::move(a));
    }
    for (ImportNode* n : {&abs, &pow, &sum}) out_.push_back(std::move(*n));
    return true;
  }

  static ImportInt number(int64_t n) {
    ImportInt out;
    out.number = n;
    return out;
  }

  ImportFile& file_;
  const ImportNode& n_;
  std::string op_;
  bool inPlace_;
  std::vector<ImportNode> out_;
};

} // namespace

std::vector<ImportNode> withoutLists(ImportFile& file, std::vector<ImportNode> nodes) {
  const auto isForeach = [](const ImportNode& n) { return n.target.starts_with(kPrefix); };
  if (std::ranges::none_of(nodes, isForeach)) return nodes;
  std::vector<ImportNode> out;
  for (ImportNode& n : nodes) {
    std::vector<ImportNode> ones = isForeach(n) ? Expansion(file, n).nodes() : std::vector<ImportNode>();
    if (ones.empty()) ones.push_back(std::move(n));
    std::ranges::move(ones, std::back_inserter(out));
  }
  return out;
}

} // namespace dtc
