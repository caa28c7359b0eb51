#pragma once
// Pass pipelines: the syntax of `-p 'a,b{opt=v},c'`, and running it.
#include "dtc/Passes/Pass.h"
#include "dtc/Support/Progress.h"
#include "dtc/Support/Result.h"
#include <functional>
#include <optional>

namespace dtc {

struct PassStep {
  const PassInfo* pass = nullptr;
  PassOptions options;
};

// Parses "propagate{policy=dtensor},partition". For an unknown pass or option the error suggests the nearest
// one.
[[nodiscard]] Result<std::vector<PassStep>> parsePipeline(std::string_view text);
// The inverse of parsePipeline().
[[nodiscard]] std::string pipelineText(const std::vector<PassStep>&);

// verifyModule(), and the checks of what scheduled text says: that a kernel or library call computes each
// `fused` region, and that the memory plan is sound.
[[nodiscard]] bool verifyText(Module&, Diagnostics& diags);

// The min level of the module's functions.
[[nodiscard]] Level levelOf(const Module&);
[[nodiscard]] std::string_view levelName(Level); // "global"

// The state shared between the passes of one program, also across several runs.
struct PipelineState {
  std::optional<Module> beforePropagate; // set if functions have communication contracts
  std::string policy;                    // of propagate, as given
  bool propagated = false;               // in this run, so that each op's shardings fit it
};

// An op that fused text does not support, and the pass that rewrites it: a `recompute` block, an op on
// complex values.
struct Unlowered {
  OpId op;
  std::string what;
  const char* pass;
};
[[nodiscard]] std::optional<Unlowered> firstUnlowered(const Module&, FuncId);
// Error (Input), with the op's line, if already scheduled text has such an op.
[[nodiscard]] Status checkLowered(const Module&, FuncId);

struct PipelineHooks {
  // called after each successful pass
  std::function<void(const PassStep&, const Module&, double milliseconds)> after;
  Progress progress; // before each pass
  bool verifyEach = false;
  std::vector<PassRemark>* remarks = nullptr; // of all passes, in order
  PipelineState* state = nullptr;             // of preceding runs; if given, this run continues from it
};

// Runs the steps until one fails. Errors of the program are in `diags` (the returned message is then empty);
// a step whose input level is too low is an error that names the missing pass; a pass that leaves an invalid
// module is a bug.
[[nodiscard]] Status runPipeline(Module&, const std::vector<PassStep>&, Diagnostics& diags,
                                 const PipelineHooks& = {});

} // namespace dtc
