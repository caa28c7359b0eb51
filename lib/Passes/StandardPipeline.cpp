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
  return p.gives > from;
}

} // namespace

StandardPipeline standardPipeline(Level from, int optLevel, const std::string& policy,
                                  const std::string& reduceDType) {
  StandardPipeline pipeline;
  for (const PassInfo& p : passTable()) {
    if (!p.standard || !needed(p, from)) continue;
    PassStep step{&p, {}};
    std::string_view name = p.name;
    if (optLevel == 0 && name == "canonicalize") continue;
    if (optLevel == 0 && hasOption(p, "limit")) step.options.values["limit"] = "1";
    if (!policy.empty() && hasOption(p, "policy")) step.options.values["policy"] = policy;
    if (!reduceDType.empty() && hasOption(p, "reduce-dtype"))
      step.options.values["reduce-dtype"] = reduceDType;
    bool isReference = p.gives == Level::Global && name != "canonicalize";
    (isReference                    ? pipeline.reference
     : p.gives <= Level::Propagated ? pipeline.propagate
                                    : pipeline.lower)
        .push_back(step);
  }
  return pipeline;
}

} // namespace dtc
