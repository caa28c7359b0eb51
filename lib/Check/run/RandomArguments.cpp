#include "run/RandomArguments.h"
#include "dtc/Check/run/Equivalence.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/Symbols.h"
#include <cmath>

namespace dtc {

namespace {

struct Ranges {
  double lo, hi; // of floats
  double integers;
};
constexpr Ranges kTries[] = {{-1.1, 1.3, 8}, {-1.1, 1.3, 2}, {-1.1, 1.3, 1},
                             {0.2, 0.9, 8},  {0.2, 0.9, 2},  {0.2, 0.9, 1}};

// "@main has sizes that are not bound: B, L; bind them with --dim B=4,L=4"
Error unboundSizes(const Module& m, FuncId f) {
  std::string names, flag;
  size_t count = 0;
  for (const SymbolUse& use : symbolsOf(m, f)) {
    const std::string name(m.strings[use.name]);
    names += (count ? ", " : "") + name;
    flag += (count++ ? "," : "") + name + "=4";
  }
  return inputError("@" + std::string(m.strings[m[f].name]) +
                    (count == 1 ? " has a size that is not bound: " : " has sizes that are not bound: ") +
                    names + "; bind " + (count == 1 ? "it" : "them") + ", as in --dim " + flag);
}

Result<std::vector<Tensor>> argumentsIn(const Module& m, FuncId f, const Ranges& ranges) {
  std::vector<Tensor> args;
  int64_t total = 0;
  for (const FuncArg& a : m[f].args) {
    const Type& type = m.types[a.globalType.valid() ? a.globalType : m[a.value].type];
    if (!type.isStatic()) return unboundSizes(m, f);
    total += std::min(type.numElements().value_or(kMaxEquivalenceElements), kMaxEquivalenceElements);
    if (total >= kMaxEquivalenceElements)
      return inputError("@" + std::string(m.strings[m[f].name]) + " has more than " +
                        std::to_string(kMaxEquivalenceElements) +
                        " elements of input: too many for the evaluator; make it smaller, by --dim where a "
                        "size is symbolic");
    const bool real = isFloat(partType(type.dtype));
    const InputSpec spec{real ? InputSpec::Uniform : InputSpec::Randint, 5, real ? ranges.lo : 0,
                         real ? ranges.hi : ranges.integers};
    args.push_back(makeInput(spec, type.dtype, type.staticShape(), args.size()));
  }
  return args;
}

bool finite(const std::vector<Tensor>& tensors) {
  for (const Tensor& given : tensors) {
    const Tensor& t = isComplex(given.dtype()) ? given.parts() : given;
    for (int64_t i = 0; isFloat(t.dtype()) && i < t.numElements(); ++i)
      if (!std::isfinite(t.getFloat(i))) return false;
  }
  return true;
}

} // namespace

Result<std::vector<Tensor>> randomArguments(Module& m, FuncId f) {
  Error last = inputError("@" + std::string(m.strings[m[f].name]) + " produces non-finite values");
  for (const Ranges& ranges : kTries) {
    auto args = argumentsIn(m, f, ranges);
    if (!args) return args.error();
    auto results = evaluate(m, f, *args, {});
    if (!results)
      last = results.error();
    else if (finite(*results))
      return args;
  }
  return inputError("it cannot be evaluated on random inputs: " + last.message);
}

} // namespace dtc
