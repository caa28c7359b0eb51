#include "import/OnnxContext.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc::onnx {

size_t OnnxContext::numOperands() const {
  size_t count = 0;
  for (const ImportArgument& a : node.arguments) count += a.name.empty() ? 1 : 0;
  return count;
}

std::optional<uint32_t> OnnxContext::valueIndex(int i) const {
  const ImportAttribute* a = attribute(i);
  const auto* ref = a ? std::get_if<ImportValueRef>(a) : nullptr;
  return ref && ref->valid() ? std::optional(ref->index) : std::nullopt;
}

int32_t OnnxContext::element(int i) const {
  const auto index = valueIndex(i);
  const int32_t type = index ? state.program.elements[*index] : int32_t(kUndefined);
  return type != kUndefined ? type : elementOf(in(i).dtype());
}

void OnnxContext::setElement(size_t result, int32_t type) {
  if (wants(result)) state.program.elements[node.results[result].index] = type;
}

Expr OnnxContext::moving(Expr y) {
  if (isNarrow(element(0))) setElement(0, element(0));
  return y;
}

const Tensor* OnnxContext::knownIf(int i) const { return has(i) ? state.constants.of(in(i)) : nullptr; }

const Tensor& OnnxContext::known(int i, const char* what) const {
  if (const Tensor* t = knownIf(i)) return *t;
  if (!has(i)) fail(std::string("has no operand for ") + what);
  std::vector<std::string> inputs;
  for (ValueId v : state.constants.argumentsOf(in(i)))
    for (const ImportInput& input : file.graphs[0].inputs)
      if (scope.value(input.value) == v && !input.weight)
        inputs.push_back(file.values[input.value.index].name);
  const std::string names = joined(inputs, ", ", [](const std::string& n) { return "'" + n + "'"; });
  if (inputs.empty())
    fail(std::string("needs ") + what +
         " at import, but the program computes it, from symbolic sizes (bind them with --dim), weights, "
         "random "
         "numbers or in a loop");
  std::string flags;
  for (const std::string& n : inputs) flags += " --bind " + n + "=FILE.npy";
  fail(std::string("needs ") + what + " at import, computed from the " +
       (inputs.size() == 1 ? "input " : "inputs ") + names + "; give the value with" + flags +
       ", or export the model with constant sizes");
}

std::vector<int64_t> OnnxContext::knownInts(int i, const char* what) const {
  const Tensor& t = known(i, what);
  if (!isInteger(t.dtype()) && !isBool(t.dtype()))
    fail(std::string("has ") + what + " that are not integers");
  std::vector<int64_t> out;
  for (int64_t k = 0; k < t.numElements(); ++k) out.push_back(t.getInt(k));
  return out;
}

int64_t OnnxContext::knownInt(int i, const char* what) const {
  const auto list = knownInts(i, what);
  if (list.size() != 1)
    fail(std::string("has ") + std::to_string(list.size()) + " elements as " + what + ", but needs one");
  return list[0];
}

std::vector<double> OnnxContext::knownReals(int i, const char* what) const {
  const Tensor& t = known(i, what);
  if (isComplex(t.dtype())) fail(std::string("has ") + what + " that are complex");
  std::vector<double> out;
  for (int64_t k = 0; k < t.numElements(); ++k)
    out.push_back(isFloat(t.dtype()) ? t.getFloat(k) : static_cast<double>(t.getInt(k)));
  return out;
}

std::optional<std::vector<ImportInt>> OnnxContext::sizesIf(int i) const {
  const auto index = valueIndex(i);
  if (!index) return std::nullopt;
  if (const auto found = state.sizes.find(*index); found != state.sizes.end()) return found->second;
  const Tensor* t = knownIf(i);
  if (!t || !isInteger(t->dtype()) || t->rank() > 1) return std::nullopt;
  std::vector<ImportInt> out;
  for (int64_t k = 0; k < t->numElements(); ++k) out.emplace_back(t->getInt(k));
  return out;
}

std::vector<Dim> OnnxContext::knownSizes(int i, const char* what) const {
  std::vector<ImportInt> list;
  if (auto sizes = sizesIf(i)) {
    list = std::move(*sizes);
  } else {
    for (int64_t v : knownInts(i, what)) list.emplace_back(v);
  }
  std::vector<Dim> out;
  for (const ImportInt& v : list) out.push_back(size(v));
  return out;
}

void OnnxContext::setSizes(std::vector<ImportInt> sizes) {
  const auto isSymbolic = [](const ImportInt& v) { return !v.isNumber(); };
  if (wants(0) && std::ranges::any_of(sizes, isSymbolic))
    state.sizes[node.results[0].index] = std::move(sizes);
}

std::optional<std::vector<int64_t>> OnnxContext::axes(int i, const char* name) const {
  if (has(name)) return ints(name);
  if (has(i)) return knownInts(i, "the axes");
  return std::nullopt;
}

DType OnnxContext::heldBy(int64_t elementType) const {
  const ElementInfo* e =
      elementType < 0 || elementType > 1000 ? nullptr : findElement(static_cast<int32_t>(elementType));
  if (!e || !e->held)
    fail("has the unsupported type " + (e ? std::string(e->name) : "number " + std::to_string(elementType)));
  return *e->held;
}

} // namespace dtc::onnx
