#pragma once
// canonicalize: removes unused ops, merges equal ops, and removes identities (a reshape to the same shape, a
// transpose with the identity permutation, stop_gradient).
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool canonicalizePass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
