#include "read/Inline.h"

#include <algorithm>

namespace dtc {
namespace {

bool isRegion(const ImportNode& n) {
  return n.target == "higher_order.wrap_with_set_grad_enabled" ||
         n.target == "higher_order.wrap_with_autocast";
}

ImportNode alias(const ImportNode& region, ImportValueRef of, ImportValueRef result) {
  ImportNode n;
  n.target = "aten.alias.default", n.written = region.target;
  n.arguments = {{"self", of}}, n.results = {result};
  n.name = region.name, n.location = region.location;
  return n;
}

// The operands follow the graph. Sizes are invalid: the graph has their expressions.
std::vector<ImportValueRef> operandsOf(const ImportNode& n, std::optional<ImportGraphRef>& graph) {
  std::vector<ImportValueRef> out;
  for (const ImportArgument& a : n.arguments) {
    if (const auto* g = std::get_if<ImportGraphRef>(&a.value)) graph = *g;
    if (!graph) continue;
    if (const auto* ref = std::get_if<ImportValueRef>(&a.value); ref && ref->valid()) out.push_back(*ref);
    if (const auto* list = std::get_if<std::vector<ImportValueRef>>(&a.value))
      out.insert(out.end(), list->begin(), list->end());
    if (std::holds_alternative<ImportInt>(a.value)) out.emplace_back();
  }
  return out;
}

// False if the node is not one that can be inlined.
bool inlined(ImportFile& file, const ImportNode& n, std::vector<ImportNode>& out) {
  std::optional<ImportGraphRef> ref;
  const std::vector<ImportValueRef> operands = operandsOf(n, ref);
  if (!ref) return false;
  ImportGraph& g = file.graphs[ref->index];
  const auto isTensor = [](const ImportOutput& o) { return std::holds_alternative<ImportValueRef>(o.value); };
  const auto fits = [](ImportValueRef operand, const ImportInput& i) {
    return operand.valid() == i.value.valid();
  };
  if (!std::ranges::equal(operands, g.inputs, fits) || n.results.size() != g.outputs.size() ||
      !std::ranges::all_of(g.outputs, isTensor))
    return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].valid()) out.push_back(alias(n, operands[i], g.inputs[i].value));
  std::vector<ImportNode> inner = withoutRegions(file, std::move(g.nodes));
  std::ranges::move(inner, std::back_inserter(out));
  for (size_t i = 0; i < n.results.size(); ++i)
    if (n.results[i].valid())
      out.push_back(alias(n, std::get<ImportValueRef>(g.outputs[i].value), n.results[i]));
  g.nodes.clear(), g.inputs.clear(), g.outputs.clear();
  return true;
}

} // namespace

std::vector<ImportNode> withoutRegions(ImportFile& file, std::vector<ImportNode> nodes) {
  if (std::ranges::none_of(nodes, isRegion)) return nodes;
  std::vector<ImportNode> out;
  for (ImportNode& n : nodes)
    if (!isRegion(n) || !inlined(file, n, out)) out.push_back(std::move(n));
  return out;
}

} // namespace dtc
