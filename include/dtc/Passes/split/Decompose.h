#pragma once
// decompose: replaces ops that have no kernel on any backend by the decomposition in their record.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool decomposePass(Module&, const PassOptions&, Diagnostics&);
// Decomposes only the ops that no backend supports (Lowering::Decompose), in this block and its regions: for
// local text. `unlessKept`: except ops that are kept until later.
[[nodiscard]] bool decomposeNeeded(Module&, BlockId, Diagnostics&, bool unlessKept = false);

} // namespace dtc
