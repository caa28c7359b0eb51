#pragma once
// canonicalize: removes unused ops, merges equal ops, and removes identities (a reshape to the same shape, a
// transpose with the identity permutation, stop_gradient).
#include "dtc/Passes/Pass.h"

namespace dtc {

// For an op that only permutes dims: the operand's dim for each of the result's. Empty for other ops.
[[nodiscard]] std::vector<int64_t> permutationOf(Module&, OpId);

[[nodiscard]] bool canonicalizePass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
