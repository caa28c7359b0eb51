#include "dtc/Passes/analysis/Branches.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/OpWork.h"

namespace dtc {

static double secondsOfBlock(Module& m, BlockId b, const Mesh& mesh, const NominalMachine& machine) {
  double seconds = 0;
  for (OpId o : m[b].ops) {
    const OpRecord& record = m.record(o);
    if (record.async == AsyncForm::Done) continue;
    if (sendsMessages(record.collective)) {
      if (const auto price = priceOfCollective(m, o, mesh, machine)) seconds += price->seconds;
    } else if (m[o].numRegions != 0 && record.regions != RegionKind::Fused) {
      double once = 0;
      for (BlockId inner : countedBlocks(m, o, mesh, machine))
        once += secondsOfBlock(m, inner, mesh, machine);
      seconds += boundedProduct(static_cast<double>(executionsOf(m, o).value_or(1)), once);
    } else if (const auto work = localWork(m, o, mesh)) {
      seconds += work->seconds(machine);
    }
  }
  return seconds;
}

std::vector<BlockId> countedBlocks(Module& m, OpId o, const Mesh& mesh, const NominalMachine& machine) {
  std::vector<BlockId> all;
  for (uint32_t r = 0; r < m[o].numRegions; ++r) all.push_back(m.region(o, r));
  if (m.record(o).regions != RegionKind::Cond || all.size() != 2) return all;
  const bool second = secondsOfBlock(m, all[1], mesh, machine) > secondsOfBlock(m, all[0], mesh, machine);
  return {all[second ? 1 : 0]};
}

} // namespace dtc
