#include "dtc/Passes/collectives/OptimizeCollectives.h"

#include "collectives/CollectiveSteps.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Recomputes.h"

namespace dtc {

// Whether all collectives of the function, except for p2p, are between devices that run it.
static bool staysWithin(const Module& m, FuncId f) {
  const Mesh mesh = meshValueOf(m, f);
  const DevicePrograms programs = programsOf(m, entryOfProgram(m, f));
  bool stays = true;
  forEachOp(m, m[f].body, [&](OpId o) {
    const CollectiveKind kind = m.record(o).collective;
    if (!hasGroups(kind) || kind == CollectiveKind::P2p) return;
    for (int64_t p = 0; p < mesh.numDevices(); ++p)
      if (programs.at(p) == f)
        for (int64_t other : rendezvousOf(m, o, mesh, p)) stays = stays && programs.at(other) == f;
  });
  return stays;
}

bool optimizeCollectives(Module& m, Diagnostics& diags, const OptimizeCollectivesOptions& options) {
  if (options.severalPrograms) {
    for (FuncId f : m.order)
      if (options.bucket && m[f].spmd && !devicesOf(m, f).empty() && staysWithin(m, f))
        bucketCollectives(m, f, options, diags);
    return !diags.hasErrors();
  }
  std::vector<FuncId> functions;
  for (FuncId f : m.order)
    // Functions of some devices must keep matching. Those that compute values again have been through this pass, in
    // which recompute blocks are separate: their collectives must not be joined across blocks.
    if (m[f].spmd && devicesOf(m, f).empty() && !recomputes(m, f)) functions.push_back(f);
  if (options.hoist) hoistCollectives(m, functions, diags);
  while (joinCollectives(m, functions, diags)) {}
  if (options.bucket)
    for (FuncId f : functions) bucketCollectives(m, f, options, diags);
  return !diags.hasErrors();
}

OptimizeCollectivesOptions optimizeCollectivesOptions(const PassOptions& written) {
  OptimizeCollectivesOptions options;
  options.severalPrograms = written.word("programs", "one") == "several";
  options.hoist = written.flag("hoist", true);
  options.bucket = written.word("bucket", "auto") != "off";
  options.bucketBytes = written.integer("bucket").value_or(options.bucketBytes);
  return options;
}

} // namespace dtc
