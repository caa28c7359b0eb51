#pragma once
// `--check` (cli.md): a run's results against the reference evaluator's, and where the local programs part from it.
#include "dtc/Check/WireRounding.h"
#include "dtc/IR/Module.h"
#include "dtc/Runtime/Executable.h"
#include "dtc/Support/Result.h"

namespace dtc {

// The same function by the reference evaluator: R64, and Rd (every result rounded to its dtype). Global text runs
// unsharded; spmd text has no unsharded form and is run by the many-device evaluator. `steps`: how often it runs, each time with
// what its carried results were; the results are the last's. `tf32`: EvalOptions::tf32, for a run that may use it.
struct Reference {
  std::vector<Tensor> r64, rd; // global values of the results
  std::vector<std::vector<Tensor>>
      nudged; // rd again, where addNudged was called: each result as one nudged evaluation has it
  std::vector<Tensor>
      unpromised; // rd with NaN where nothing is promised, where addUnpromised found such elements
  std::vector<WireErrors> wire; // by result, where addWireErrors was called
  bool manyDevices = false;
};
[[nodiscard]] Result<Reference> runReference(Module& m, FuncId f, std::span<const Tensor> args, int steps = 1,
                                             bool tf32 = false);

// Four more evaluations as rd's, in which every operand is off by up to one unit in its last place, as it might be in a program
// that computes the same in another order. Where a result's error is judged by few elements (a scalar whose terms cancel), rd's
// may be nothing by luck; theirs are not. For programs drawn at random, and only where the check fails without; `run --check` has no
// tolerance but its rule.
[[nodiscard]] Status addNudged(Reference& reference, Module& m, FuncId f, std::span<const Tensor> args,
                               int steps = 1);

// Once more as rd, with NaN in place of what docs/sharding.md, "Infinities and NaN", does not promise of `propagated`, the same
// program with its shardings. Does nothing where all is promised.
[[nodiscard]] Status addUnpromised(Reference& reference, Module& propagated, FuncId f,
                                   std::span<const Tensor> args, int steps = 1, bool tf32 = false);

// How far each result of the local program moves on the many-device evaluator (R64) where every collective's result is off by one
// unit in the last place of the wire's dtype a hop, at the collective's largest value and up or down at random; twice the largest
// of two such evaluations (Monte Carlo arithmetic, as addNudged's).
[[nodiscard]] Status addWireErrors(Reference& reference, Module& scheduled, FuncId f,
                                   std::span<const Tensor> args, int steps, const WireRounding& wire);

struct ResultCheck {
  std::string name;
  std::vector<int64_t> shape;
  CompareReport report;
  bool byNudged = false; // it passes beside a nudged evaluation
  bool byWire =
      false; // it passes by hops in a coarser dtype, counted at its own size: addWireErrors knows better
};
struct CheckReport {
  bool pass = true;
  bool manyDevices = false;
  std::vector<ResultCheck> results;
  std::string firstDifference; // where a failed run departs, or ""
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};
[[nodiscard]] CheckReport checkResults(const Reference& reference, std::span<const Tensor> got,
                                       const std::vector<std::string>& names,
                                       std::span<const CompareOptions> options); // by result

// Where the run first leaves the reference: every named value of the propagated text is compared with the same value as
// each device holds it, in program order. `ran` was loaded without reuseMemory from `scheduled` and has run on `args`.
// "%h, 'matmul' at mlp.dt:7, on device dp=0 tp=1: …", or "" where all named values agree.
[[nodiscard]] std::string findFirstDifference(Module& propagated, FuncId global, std::span<const Tensor> args,
                                              const Module& scheduled, FuncId local, const Executable& ran,
                                              const WireRounding& wire, bool tf32 = false);

} // namespace dtc
