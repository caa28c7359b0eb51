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

// Empty: the op has a form that is not expanded.
std::vector<ImportNode> expanded(ImportFile& file, const ImportNode& n) {
  const ImportArgument* self = argumentOf(n, "self");
  const auto* list = self ? std::get_if<std::vector<ImportValueRef>>(&self->value) : nullptr;
  const std::string op = opName(withoutOverload(n.target));
  const bool inPlace = op.ends_with('_');
  if (!list || (!inPlace && n.results.size() != list->size())) return {};
  std::vector<ImportNode> out;
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].valid()) return {};
    ImportNode& one = out.emplace_back();
    one.target = "aten." + op + ".default", one.written = n.target;
    one.name = n.name, one.location = n.location;
    for (const ImportArgument& a : n.arguments) {
      ImportArgument mine{argumentName(op, a.name), a.value};
      if (a.name == "scalars" && std::holds_alternative<ImportValueRef>(a.value)) return {};
      if (!takeElement<ImportValueRef>(mine.value, i) || !takeElement<ImportInt>(mine.value, i) ||
          !takeElement<double>(mine.value, i) || !takeElement<bool>(mine.value, i))
        return {};
      one.arguments.push_back(std::move(mine));
    }
    if (!inPlace) {
      one.results = {n.results[i]};
      continue;
    }
    file.values.push_back(ImportValue(file.values[(*list)[i].index]));
    one.results = {ImportValueRef{static_cast<uint32_t>(file.values.size() - 1)}};
  }
  return out;
}

} // namespace

std::vector<ImportNode> withoutLists(ImportFile& file, std::vector<ImportNode> nodes) {
  const auto isForeach = [](const ImportNode& n) { return n.target.starts_with(kPrefix); };
  if (std::ranges::none_of(nodes, isForeach)) return nodes;
  std::vector<ImportNode> out;
  for (ImportNode& n : nodes) {
    std::vector<ImportNode> ones = isForeach(n) ? expanded(file, n) : std::vector<ImportNode>();
    if (ones.empty()) ones.push_back(std::move(n));
    std::ranges::move(ones, std::back_inserter(out));
  }
  return out;
}

} // namespace dtc
