#pragma once
// Compares two modules, for `%dtc-opt` in the tests: the program before and after the passes, on random
// inputs, on the simulated devices of its mesh, by the reference evaluator.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <string>

namespace dtc {

struct EquivalenceReport {
  int functions = 0;                    // compared
  std::vector<std::string> differences; // "@f, result %y: …"
};

// Compares each function of `before` with the one of that name in `after`: the same global arguments, each
// result by the rule of --check (Compare.h) against `before` in f64 and rounded. Symbolic sizes are bound to
// 4. Either module may be of any level that the evaluator runs; gradients in `before` are autodiff's (tests
// of gradients compare those with finite differences), so `before` is modified by it. Error: no function is
// left to compare, or `before` itself cannot be evaluated (inputs above kMaxEquivalenceElements in all).
[[nodiscard]] Result<EquivalenceReport> checkEquivalence(Module& before, Module& after);

inline constexpr int64_t kMaxEquivalenceElements = 1 << 20;

} // namespace dtc
