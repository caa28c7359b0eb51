// The standard pipeline in order, then the other passes; one row per pass, whose text is its section of
// docs/passes.md.
#include "analysis/FusedRegions.h"

#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Passes/pipeline/PassText.h"
#include "dtc/Passes/pipeline/Pipeline.h"

namespace dtc {

// Each is defined in the file of its pass.
using PassFunction = bool(Module&, const PassOptions&, Diagnostics&);
PassFunction inlinePass, splitComplexPass, autodiffPass, decomposePass, canonicalizePass, propagatePass,
    partitionPass, optimizeCollectivesPass, inlineRecomputePass, splitPass, freezePass, fusePass,
    schedulePass, planMemory, specializePass, specializeDevicesPass, unrollPass, ifToSelectPass,
    fixReductionOrderPass, recomputePass, pipelinePass, collectiveMatmulPass;

static std::vector<PassInfo> passRows() {
  using enum Level;
  const std::vector<const char*> flag = {"true", "false"};
  const PassOption order{"order", "any", {"any", "fixed"}};
  const PassOption reduceDType{.name = "reduce-dtype", .fallback = "", .isDType = true};
  return {
      {.name = "inline", .run = inlinePass, .takesBoundSizes = true, .anyLevel = true},
      {.name = "split-complex", .run = splitComplexPass, .anyLevel = true},
      {.name = "autodiff", .run = autodiffPass, .takesBoundSizes = true},
      {.name = "decompose", .run = decomposePass, .options = {{"all", "false", flag}}},
      {.name = "canonicalize", .run = canonicalizePass},
      {.name = "propagate",
       .run = propagatePass,
       .produces = Propagated,
       .options = {{"policy", "shardy", {"shardy", "dtensor", "cost", "explicit"}},
                   reduceDType,
                   {"strict-nonfinite", "false", flag},
                   {"results", "free", {"free", "whole-axes"}}}},
      {.name = "partition",
       .run = partitionPass,
       .needs = Propagated,
       .produces = Local,
       .options = {reduceDType}},
      {.name = "optimize-collectives",
       .run = optimizeCollectivesPass,
       .needs = Local,
       .produces = Local,
       .options = {{"bucket", "auto", {"auto", "off"}, 1},
                   {"hoist", "true", flag},
                   {"programs", "one", {"one", "several"}}}},
      {.name = "inline-recompute", .run = inlineRecomputePass, .needs = Local, .produces = Local},
      {.name = "recompute",
       .run = recomputePass,
       .needs = Local,
       .produces = Local,
       .options = {{.name = "budget", .fallback = "", .isBytes = true},
                   {"scope", "cheap", {"gathers", "cheap"}}}},
      {.name = "collective-matmul",
       .run = collectiveMatmulPass,
       .needs = Local,
       .produces = Local,
       .options = {{"rings", "on", {"auto", "on", "off"}},
                   {.name = "target", .fallback = "cpu", .isTarget = true},
                   order}},
      {.name = "split",
       .run = splitPass,
       .needs = Local,
       .produces = Split,
       .options = {{.name = "target", .fallback = "cpu", .isTarget = true}, {"parts", "true", flag}, order}},
      {.name = "freeze",
       .run = freezePass,
       .needs = Split,
       .produces = Split,
       .options = {{.name = "memory", .fallback = "", .isBytes = true}}},
      {.name = "fuse",
       .run = fusePass,
       .needs = Split,
       .produces = Fused,
       .options = {{"limit", "64", {}, 1}, order, {"gelu", "exact", {"exact", "library"}}}},
      {.name = "schedule",
       .run = schedulePass,
       .needs = Fused,
       .produces = Scheduled,
       .options = {{"overlap", "true", flag}}},
      {.name = "plan-memory",
       .run = planMemory,
       .needs = Local, // a program of collectives alone has nothing to fuse
       .produces = Placed,
       .options = {{"reuse", "true", flag}, {"results", "shared", {"shared", "apart"}}}},
  };
}

// Those outside of the standard pipeline.
static std::vector<PassInfo> otherPassRows() {
  using enum Level;
  const PassOption order{"order", "any", {"any", "fixed"}};
  return {
      {.name = "specialize",
       .run = specializePass,
       .standard = false,
       .takesBoundSizes = true,
       .anyLevel = true},
      {.name = "specialize-devices",
       .run = specializeDevicesPass,
       .needs = Local,
       .produces = Local,
       .standard = false},
      {.name = "pipeline",
       .run = pipelinePass,
       .needs = Local,
       .produces = Local,
       .options = {{"schedule",
                    pipelineWordOf(kDefaultPipeline),
                    {std::begin(kPipelineWords), std::end(kPipelineWords)}},
                   {"microbatches", "", {}, 1},
                   {"chunks", "", {}, 1},
                   {.name = "axis", .fallback = "pp", .isName = true},
                   order},
       .standard = false},
      {.name = "unroll", .run = unrollPass, .options = {{"limit", "8", {}, 0}}, .standard = false},
      {.name = "if-to-select", .run = ifToSelectPass, .options = {{"limit", "8", {}, 0}}, .standard = false},
      {.name = "fix-reduction-order", .run = fixReductionOrderPass, .standard = false},
  };
}

const std::vector<PassInfo>& passTable() {
  static const std::vector<PassInfo> table = [] {
    std::vector<PassInfo> rows = passRows(), others = otherPassRows();
    rows.insert(rows.end(), others.begin(), others.end());
    for (PassInfo& row : rows) readPassPage(row);
    return rows;
  }();
  return table;
}

const PassInfo* findPass(std::string_view name) {
  for (const PassInfo& p : passTable())
    if (p.name == name) return &p;
  return nullptr;
}

// What passes write is checked by the passes' own rules.
bool verifyText(Module& m, Diagnostics& diags) {
  return verifyModule(m, diags) && checkFusedRegions(m, diags) && checkMemoryPlans(m, diags);
}

} // namespace dtc
