#pragma once
// inline: puts the body of every called function in the place of its call; what is called no longer is removed.
//
// Runs first, so that every later pass sees one function without calls: sharding, gradients and fusion do not stop at a
// boundary that only the author's convenience drew. Shardings written on the callee's arguments and results hold as
// constraints (`shard`) at the call.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool inlinePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo inlineInfo();

// Only the function is left, with what it calls and the gradients that those have of their own ({grad = @g}).
void keepReached(Module&, FuncId);

} // namespace dtc
