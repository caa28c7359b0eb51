#pragma once
// Gradients against differences, and own gradients against derived ones. Private to lib/Check.
#include "dtc/Check/Numerics.h"

namespace dtc {

// Leaves `f` and what it calls.
void keepOnly(Module& m, FuncId f);

// A section for each function that the module differentiates, then one for each that has a gradient of its own.
[[nodiscard]] Status checkGradients(const Module&, NumericsReport&, Diagnostics&);

} // namespace dtc
