#pragma once
// decompose: replaces ops that no backend makes in one piece by the more basic ops of their record's decomposition.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool decomposePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo decomposeInfo();

} // namespace dtc
