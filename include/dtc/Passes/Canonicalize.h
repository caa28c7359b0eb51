#pragma once
// canonicalize: one spelling for one computation. Ops whose results nobody reads go, equal ops become one, and ops that
// give their operand back (a reshape to the same shape, a transpose that moves nothing, stop_gradient) disappear.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool canonicalizePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo canonicalizeInfo();

} // namespace dtc
