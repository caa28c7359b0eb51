#include "dtc/Passes/StandardPipeline.h"

namespace dtc {
namespace {

bool hasOption(const PassInfo& p, std::string_view name) {
  for (const PassOption& o : p.options)
    if (o.name == name) return true;
  return false;
}

// Does text of this level still need the pass? One that raises the level is done where the text is above it already.
bool needed(const PassInfo& p, Level from) {
  if (p.anyLevel) return true;
  if (p.needs == p.gives) return p.needs >= from;
  if (p.gives == Level::Propagated)
    return p.gives >= from; // people may have written shardings that do not fit
  return p.gives > from;
}

} // namespace

StandardPipeline standardPipeline(Level from, const StandardPipelineOptions& options) {
  StandardPipeline pipeline;
  for (const PassInfo& p : passTable()) {
    if (!p.standard || !needed(p, from)) continue;
    PassStep step{&p, {}};
    std::string_view name = p.name;
    auto give = [&](const char* option, const std::string& value) {
      if (!value.empty() && hasOption(p, option)) step.options.values[option] = value;
    };
    if (options.optLevel == 0 && name == "canonicalize") continue;
    if (options.optLevel == 0 || options.fixedReductionOrder) give("limit", "1");
    if (options.fixedReductionOrder) give("order", "fixed");
    if (options.gpu) give("groups", "whole");
    if (options.gpu && !options.fixedReductionOrder) give("whole", "true"), give("narrow", "true");
    give("policy", options.policy);
    give("reduce-dtype", options.reduceDType);
    if (options.strictNonFinite) give("strict-nonfinite", "true");
    if (options.fixedReductionOrder && p.gives == Level::Propagated && from < p.gives)
      pipeline.propagate.push_back({findPass("fix-reduction-order"), {}});
    bool isReference = p.gives == Level::Global && name != "canonicalize";
    (isReference                    ? pipeline.reference
     : p.gives <= Level::Propagated ? pipeline.propagate
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
