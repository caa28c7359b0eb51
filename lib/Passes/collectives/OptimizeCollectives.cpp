#include "dtc/Passes/collectives/OptimizeCollectives.h"

#include "collectives/CollectiveSteps.h"

#include "dtc/IR/DevicePrograms.h"

namespace dtc {

bool optimizeCollectives(Module& m, Diagnostics& diags, const OptimizeCollectivesOptions& options) {
  std::vector<FuncId> functions;
  for (FuncId f : m.order)
    if (m[f].spmd && devicesOf(m, f).empty()) functions.push_back(f); // others must keep matching
  if (options.hoist) hoistCollectives(m, functions, diags);
  while (joinCollectives(m, functions, diags)) {}
  if (options.bucket)
    for (FuncId f : functions) bucketCollectives(m, f, options, diags);
  return !diags.hasErrors();
}

OptimizeCollectivesOptions optimizeCollectivesOptions(const PassOptions& written) {
  OptimizeCollectivesOptions options;
  options.hoist = written.flag("hoist", true);
  options.bucket = written.word("bucket", "auto") != "off";
  options.bucketBytes = written.integer("bucket").value_or(options.bucketBytes);
  return options;
}

} // namespace dtc
