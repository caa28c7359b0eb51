#pragma once
// `--check` (cli.md): compares a run's results with the reference evaluator's, and locates the first
// difference in the local programs.
#include "dtc/Check/run/CommRounding.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/IR/Module.h"
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Support/Result.h"

namespace dtc {

// The same function by the reference evaluator: R64, and Rd (every result rounded to its dtype). Global text
// runs unsharded; spmd text has no unsharded form and is run by the many-device evaluator. `steps`: the
// number of runs, each with the carried results of the previous one; the results are the last run's. `tf32`:
// EvalOptions::tf32, for a run that may use it.
struct Reference {
  std::vector<Tensor> r64, rd;                // global values of the results
  std::vector<std::vector<Tensor>> perturbed; // further values of rd, after addPerturbed
  // rd with NaN where nothing is promised, if addUnpromised found such elements.
  std::vector<Tensor> unpromised;
  std::vector<CommErrors> commErrors; // by result, after addCommErrors
  bool manyDevices = false;
};
[[nodiscard]] Result<Reference> runReference(Module& m, FuncId f, std::span<const Tensor> args, int steps = 1,
                                             bool tf32 = false);

// Four more evaluations like rd's, in which every operand is perturbed by up to one unit in its last place,
// as in a program that computes the same in another order (Monte Carlo arithmetic, Parker 1997). They show
// which elements are sensitive to rounding: a sum whose terms cancel, or g / (|g| + 1e-8) in the first step of
// Adam, where a gradient is near 0. rd's error may be zero there by chance. Only where the check fails
// without.
[[nodiscard]] Status addPerturbed(Reference& reference, Module& m, FuncId f, std::span<const Tensor> args,
                                  int steps = 1);

// One more evaluation like rd's, with NaN where docs/sharding.md, "Infinities and NaN", makes no promise for
// `propagated`, the same program with its shardings. Does nothing where all is promised.
[[nodiscard]] Status addUnpromised(Reference& reference, Module& propagated, FuncId f,
                                   std::span<const Tensor> args, int steps = 1, bool tf32 = false);

// The effect on each result of the local program on the many-device evaluator (R64) if every collective's
// result is perturbed by one unit in the last place of the communication dtype per hop, at the collective's
// largest value and up or down at random; twice the maximum of two such evaluations (as in addPerturbed).
[[nodiscard]] Status addCommErrors(Reference& reference, Module& scheduled, FuncId f,
                                   std::span<const Tensor> args, int steps, const CommRounding& rounding);

struct ResultCheck {
  std::string name;
  std::vector<int64_t> shape;
  CompareReport report;
  // It passes with hops in a coarser dtype, counted at their own magnitude: addCommErrors is more precise.
  bool byCommRounding = false;
};
struct CheckReport {
  bool pass = true;
  bool manyDevices = false;
  std::vector<ResultCheck> results;
  std::string firstDifference; // the location of the first difference of a failed run, or ""
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};
// `options`: by result. `ran`: the executable that has computed `got`, whose other replicas must pass, too.
[[nodiscard]] CheckReport checkResults(const Reference& reference, const NamedTensors& got,
                                       std::span<const CompareOptions> options,
                                       const Executable* ran = nullptr);

// A run that is checked: its function's name, the module at three stages, and its arguments.
struct CheckedRun {
  Module& unsharded;
  Module* propagated; // null: local text
  Module& scheduled;
  std::string_view function;
  std::span<const Tensor> args;
  int steps = 1; // as in runReference
  bool tf32 = false;
};
// checkResults with what the program's text says of rounding between devices. Where that fails, the reference
// learns more, and all is compared again: what is not promised, the magnitudes of rounded communication, and
// which elements are sensitive to rounding, each only if the check still fails.
[[nodiscard]] Result<CheckReport> checkRunResults(Reference& reference, const CheckedRun& run,
                                                  const NamedTensors& got, const CommRounding& rounding,
                                                  const Executable* ran = nullptr);

// Where the run first differs from the reference: every named value of the propagated text is compared with
// the same value as each device holds it, in program order. `ran` was loaded without reuseMemory from
// `scheduled` and has run on `args`. "%h, 'matmul' at mlp.dt:7, on device dp=0 tp=1: …", or "" where all
// named values agree.
[[nodiscard]] std::string findFirstDifference(Module& propagated, FuncId global, std::span<const Tensor> args,
                                              const Module& scheduled, FuncId local, const Executable& ran,
                                              const CommRounding& rounding, bool tf32 = false);

} // namespace dtc
