#pragma once
// inline-recompute: puts the block of every `recompute` in the place of the op.
//
// Needs local text; runs after optimize-collectives, the last pass that makes one of two equal ops, and before fuse, which
// makes kernels of ops side by side. Until then the block keeps what is computed again in the backward pass (collectives
// too) from being merged with what the forward pass computed.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool inlineRecomputePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo inlineRecomputeInfo();

} // namespace dtc
