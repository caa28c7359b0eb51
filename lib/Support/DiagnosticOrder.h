#pragma once
// The order in which diagnostics are shown: by place in the text, whatever order they were found in.
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Diagnostics of one place keep their order; those without a place come last.
[[nodiscard]] std::vector<const Diagnostic*> byPlace(const Diagnostics&);

} // namespace dtc
