#include "dtc/Passes/pipeline/StandardPipeline.h"

#include "dtc/Passes/analysis/PipelineOrder.h"

namespace dtc {
static bool hasOption(const PassInfo& p, std::string_view name) {
  for (const PassOption& o : p.options)
    if (o.name == name) return true;
  return false;
}

// True if text of this level still needs the pass. A pass that raises the level is skipped if the text is
// above it already.
static bool needed(const PassInfo& p, Level from) {
  if (p.anyLevel) return true;
  if (p.needs == p.produces) return p.needs >= from;
  if (p.produces == Level::Propagated)
    return p.produces >= from; // users may have annotated shardings that do not fit
  return p.produces > from;
}

std::vector<PassStep> StandardPipeline::all() const {
  std::vector<PassStep> steps = reference;
  for (const auto* part : {&propagate, &lower}) steps.insert(steps.end(), part->begin(), part->end());
  return steps;
}

StandardPipeline standardPipeline(Level from, const StandardPipelineOptions& options) {
  StandardPipeline pipeline;
  for (const PassInfo& p : passTable()) {
    if (!p.standard || !needed(p, from)) continue;
    PassStep step{&p, {}};
    std::string_view name = p.name;
    auto set = [&](const char* option, const std::string& value) {
      if (!value.empty() && hasOption(p, option)) step.options.values[option] = value;
    };
    if (options.optLevel == 0 && (name == "canonicalize" || name == "freeze")) continue;
    if (hasOption(p, "budget")) {
      if (options.recompute == "none") continue;
      const bool isScope =
          options.recompute.empty() || options.recompute == "gathers" || options.recompute == "cheap";
      set(isScope ? "scope" : "budget", options.recompute.empty() ? "gathers" : options.recompute);
    }
    if (options.optLevel == 0 || options.fixedReductionOrder) set("limit", "1");
    if (options.fixedReductionOrder) set("order", "fixed");
    set("target", options.target);
    if (options.libraryGelu) set("gelu", "library");
    if (options.optLevel == 0) set("parts", "false");
    if (!options.overlap) set("overlap", "false");
    if (options.resultsApart && name == "plan-memory") set("results", "apart");
    if (options.wholeAxisResults && name == "propagate") set("results", "whole-axes");
    set("rings", !options.rings.empty() ? options.rings : options.optLevel == 0 ? "off" : "auto");
    set("policy", options.policy);
    set("reduce-dtype", options.reduceDType);
    if (options.strictNonFinite) set("strict-nonfinite", "true");
    if (options.fixedReductionOrder && p.produces == Level::Propagated && from < p.produces)
      pipeline.propagate.push_back({findPass("fix-reduction-order"), {}});
    if (!options.pipeline.empty() && options.pipeline != kNoPipeline && p.produces == Level::Split &&
        p.needs < Level::Split) {
      PassStep stages{findPass("pipeline"), {{{"schedule", options.pipeline}}}};
      if (options.fixedReductionOrder) stages.options.values["order"] = "fixed";
      pipeline.lower.push_back(std::move(stages));
      pipeline.lower.push_back({findPass("optimize-collectives"), {{{"programs", "several"}}}});
    }
    if (!options.pipeline.empty() && options.pipeline != kNoPipeline && name == "optimize-collectives")
      step.options.values["bucket"] = "off"; // buckets would mix stages
    bool isReference = p.produces == Level::Global && name != "canonicalize";
    (isReference                       ? pipeline.reference
     : p.produces <= Level::Propagated ? pipeline.propagate
                                       : pipeline.lower)
        .push_back(step);
  }
  return pipeline;
}

StandardPipeline standardPipeline(Level from, int optLevel, const std::string& policy,
                                  const std::string& reduceDType) {
  return standardPipeline(from, {optLevel, policy, reduceDType});
}

} // namespace dtc
