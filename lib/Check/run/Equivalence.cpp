#include "dtc/Check/run/Equivalence.h"
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/autodiff/Autodiff.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kSymbolSize = 4;

using Tensors = std::vector<Tensor>;

// Runs the functions of one module on global tensors, at any level of the text.
class Side {
public:
  explicit Side(Module& m) : m_(m) {}

  [[nodiscard]] FuncId find(std::string_view name) const {
    FuncId f = m_.findFunction(name);
    return f.valid() && m_[f].body.valid() ? f : FuncId();
  }

  [[nodiscard]] const Type& globalType(TypeId own, TypeId global) const {
    return m_.types[global.valid() ? global : own];
  }

  // Every symbol becomes kSymbolSize; for a shard, the size of its global dim.
  [[nodiscard]] std::vector<int64_t> shapeOf(const Type& type) const {
    std::vector<int64_t> shape;
    for (Dim d : type.dims) {
      DimExpr e = m_.dims.expr(d);
      for (size_t i = 0; i < e.symbols.size(); ++i) e.coefficient *= kSymbolSize;
      shape.push_back(e.coefficient);
    }
    return shape;
  }

  [[nodiscard]] Result<Tensors> run(FuncId f, const Tensors& inputs, Precision precision) {
    EvalOptions options;
    options.precision = precision;
    options.symbols = symbols(m_[f]);
    return evaluateGlobal(m_, f, inputs, options);
  }

private:
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> symbols(const Function& f) const {
    std::vector<std::pair<std::string, int64_t>> bound;
    for (const FuncArg& a : f.args)
      for (Dim d : globalType(m_[a.value].type, a.globalType).dims)
        for (StrId s : m_.dims.expr(d).symbols) bound.emplace_back(std::string(m_.strings[s]), kSymbolSize);
    std::sort(bound.begin(), bound.end());
    bound.erase(std::unique(bound.begin(), bound.end()), bound.end());
    return bound;
  }

  Module& m_;
};

// One tensor per argument: floats around 0; integers 0 … 7, or 0 … `integers`-1.
Result<Tensors> inputsOf(const Module& m, const Side& side, FuncId f, int64_t integers) {
  Tensors inputs;
  int64_t total = 0;
  for (const FuncArg& a : m[f].args) {
    const Type& type = side.globalType(m[a.value].type, a.globalType);
    std::vector<int64_t> shape = side.shapeOf(type);
    int64_t count = 1;
    for (int64_t n : shape) {
      if (n > kMaxEquivalenceElements) count = kMaxEquivalenceElements + 1;
      if (count <= kMaxEquivalenceElements) count *= n;
    }
    total += count;
    if (total > kMaxEquivalenceElements)
      return inputError("@" + std::string(m.strings[m[f].name]) + " has more than " +
                        std::to_string(kMaxEquivalenceElements) +
                        " elements of input: too many to be compared by the evaluator");
    InputSpec spec{.kind = InputSpec::Randn, .seed = 1, .a = 1};
    if (!isFloat(partType(type.dtype)))
      spec = {.kind = InputSpec::Randint, .seed = 1, .a = 0, .b = static_cast<double>(integers)};
    inputs.push_back(makeInput(spec, type.dtype, std::move(shape), inputs.size()));
  }
  return inputs;
}

struct SideReference {
  Tensors inputs, exact, rounded;
};

// The first inputs on which the program runs: smaller integers where larger ones are out of some index's
// range.
Result<SideReference> referenceOf(const Module& m, Side& side, FuncId f) {
  Error last;
  for (int64_t integers : {8, 2, 1}) {
    DTC_TRY(auto inputs, inputsOf(m, side, f, integers));
    auto exact = side.run(f, inputs, Precision::R64);
    auto rounded = exact ? side.run(f, inputs, Precision::Rd) : exact;
    if (rounded) return SideReference{std::move(inputs), *std::move(exact), *std::move(rounded)};
    last = rounded.error();
  }
  return inputError("@" + std::string(m.strings[m[f].name]) +
                    " cannot be evaluated on random inputs: " + last.message);
}

std::string resultName(const Module& m, const Function& f, size_t r) {
  StrId label = f.results[r].label;
  return "@" + std::string(m.strings[f.name]) + ", result " +
         (label.valid() ? "%" + std::string(m.strings[label]) : std::to_string(r));
}

// The evaluator does not differentiate: where `before` needs gradients, those of autodiff are used.
Status differentiate(Module& before) {
  Diagnostics diagnostics;
  if (takesGradients(before) && !autodiffPass(before, {}, diagnostics))
    return inputError("it cannot be differentiated: " + renderDiagnostics(diagnostics, before.source, false));
  return Ok{};
}

} // namespace

Result<EquivalenceReport> checkEquivalence(Module& before, Module& after) {
  if (Status done = differentiate(before); !done) return done.error();
  EquivalenceReport report;
  Side old(before), now(after);
  for (FuncId f : std::vector<FuncId>(before.order)) {
    if (entryOfProgram(before, f) != f) continue; // compared with its entry
    std::string name(before.strings[before[f].name]);
    FuncId g = now.find(name);
    if (!g.valid() || after[g].results.size() != before[f].results.size()) continue;
    DTC_TRY(auto reference, referenceOf(before, old, f));
    ++report.functions;
    auto got = now.run(g, reference.inputs, Precision::Rd);
    if (!got) {
      report.differences.push_back("@" + name + " no longer runs: " + got.error().message);
      continue;
    }
    CompareOptions options;
    MeshId mesh = meshOfFunction(after, g);
    const int64_t hops = mesh.valid() ? after.shardings.mesh(mesh).numDevices() : 0;
    for (size_t r = 0; r < got->size(); ++r) {
      options.commHops = {{hops, (*got)[r].dtype()}};
      CompareReport compared = compareTensors((*got)[r], reference.exact[r], reference.rounded[r], options);
      if (!compared.pass)
        report.differences.push_back(resultName(before, before[f], r) + ": " + compared.reason);
    }
  }
  if (report.functions == 0) return inputError("no function of the program is left to compare");
  return report;
}

} // namespace dtc
