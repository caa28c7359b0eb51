#pragma once
// Gradients against differences, and own gradients against derived ones. Private to lib/Check.
#include "dtc/Check/Numerics.h"

namespace dtc {

// A section for each function that the module differentiates, then one for each that has a gradient of its own.
[[nodiscard]] Status checkGradients(const Module&, NumericsReport&, Diagnostics&);

} // namespace dtc
