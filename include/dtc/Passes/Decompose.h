#pragma once
// decompose: replaces ops that no backend makes in one piece by the more basic ops of their record's decomposition.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool decomposePass(Module&, const PassOptions&, Diagnostics&);
// Only the ops that no backend makes at all (Lowering::Decompose), in this block and the regions in it: of local text. `whole`: not
// those that stay whole.
[[nodiscard]] bool decomposeNeeded(Module&, BlockId, Diagnostics&, bool whole = false);
// Is the op one that is made of others unless the target has a kernel of it, and of these dtypes and sizes (its record derives
// "one kernel")?
[[nodiscard]] bool mayStayWhole(Module&, OpId);
[[nodiscard]] PassInfo decomposeInfo();

} // namespace dtc
