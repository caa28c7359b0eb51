#pragma once
// inline: replaces every call by the callee's body; functions without remaining calls are removed.
//
// Runs first, so that every later pass sees one function without calls: sharding, gradients and fusion cross
// function boundaries. Shardings annotated on the callee's arguments and results become constraints (`shard`)
// at the call.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool inlinePass(Module&, const PassOptions&, Diagnostics&);

// Keeps only the function, its callees, and their custom gradients ({grad = @g}).
void removeUnreachable(Module&, FuncId);

} // namespace dtc
