#pragma once
// Which blocks of an op with regions are part of a run.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Machine.h"

#include <vector>

namespace dtc {

// All blocks of a loop. Of a conditional, whose branch is unknown before the run, the one that takes longer: the sum of
// its computation and its messages.
[[nodiscard]] std::vector<BlockId> countedBlocks(Module&, OpId, const Mesh&, const NominalMachine&);

} // namespace dtc
