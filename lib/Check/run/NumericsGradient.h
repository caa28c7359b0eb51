#pragma once
// Gradients against finite differences, and custom gradients against derived ones.
#include "dtc/Check/run/Numerics.h"

namespace dtc {

// A section for each function that the module differentiates, then one for each that has a custom gradient.
[[nodiscard]] Status checkGradients(const Module&, NumericsReport&, Diagnostics&);

} // namespace dtc
