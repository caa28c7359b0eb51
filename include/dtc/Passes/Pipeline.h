#pragma once
// Passes in a row: what `-p 'a,b{opt=v},c'` says, and how it is run.
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

// "propagate{policy=dtensor},partition". A word that is no pass or option is answered with the nearest one.
[[nodiscard]] Result<std::vector<PassStep>> parsePipeline(std::string_view text);

// The least level of the module's functions.
[[nodiscard]] Level levelOf(const Module&);
[[nodiscard]] std::string_view levelName(Level); // "global"

// What passes of one program know of each other, also where they are run in several parts.
struct PipelineState {
  std::optional<Module> beforePropagate; // where functions have communication contracts
  std::string policy;                    // of propagate, as written
  bool propagated = false;               // here, so that each op's shardings fit it
};

// What fused text cannot hold, and the pass that rewrites it: a `recompute` block, an op that computes with complex numbers.
struct Unlowered {
  OpId op;
  std::string what;
  const char* pass;
};
[[nodiscard]] std::optional<Unlowered> firstUnlowered(const Module&, FuncId);
// Error (Input), with the op's line: text that is scheduled already holds such an op.
[[nodiscard]] Status checkLowered(const Module&, FuncId);

struct PipelineHooks {
  std::function<void(const PassStep&, const Module&, double milliseconds)> after; // each pass that went well
  Progress progress;                                                              // before each pass
  bool verifyEach = false;
  std::vector<PassRemark>* remarks = nullptr; // of all passes, in order
  PipelineState* state =
      nullptr; // of the parts that ran before; where one is given, this run goes on from it
};

// Runs the steps until one fails. What is wrong with the program is in `diags` (the error's message is then empty); a step
// that lacks what an earlier pass gives is an error that names that pass; a pass that leaves an invalid module is a bug.
[[nodiscard]] Status runPipeline(Module&, const std::vector<PassStep>&, Diagnostics& diags,
                                 const PipelineHooks& = {});

} // namespace dtc
