// The rings of collective-matmul on a target.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/Passes/pipeline/Pipeline.h"
#include "dtc/Report/explain/ExplainProgram.h"

namespace dtc {

static OverlapTime programTime(Module& m, const RingMachine& machine) {
  OverlapTime out;
  for (FuncId f : m.order) {
    if (!m[f].spmd || !m[f].body) continue;
    const OverlapTime one = overlapTimeOf(m, f, machine);
    out.seconds += one.seconds, out.exposed += one.exposed;
  }
  return out;
}

std::optional<RingReport> explainRings(const CollectiveTrace& trace, const std::string& target,
                                       Diagnostics& diags) {
  Module local = trace.local;
  const auto steps = parsePipeline("inline-recompute,recompute{scope=gathers}"); // as the standard pipeline
  if (!steps || !runPipeline(local, *steps, diags)) return std::nullopt;
  CollectiveMatmulOptions options;
  options.machine = ringMachineOf(target);
  RingReport out{.target = target, .rings = {}, .before = programTime(local, options.machine), .after = {}};
  out.rings = collectiveMatmul(local, options, diags);
  out.after = programTime(local, options.machine);
  return out;
}

} // namespace dtc
