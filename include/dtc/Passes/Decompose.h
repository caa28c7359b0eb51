#pragma once
// decompose: replaces ops that no backend makes in one piece by the more basic ops of their record's decomposition.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool decomposePass(Module&, const PassOptions&, Diagnostics&);
// Only the ops that no backend makes at all (Lowering::Decompose), in this block and the regions in it: of local text.
[[nodiscard]] bool decomposeNeeded(Module&, BlockId, Diagnostics&);
[[nodiscard]] PassInfo decomposeInfo();

} // namespace dtc
