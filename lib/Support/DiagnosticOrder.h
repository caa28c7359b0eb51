#pragma once
// The display order of diagnostics: by location in the text.
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Diagnostics of the same location keep their order; those without a location are last.
[[nodiscard]] std::vector<const Diagnostic*> byLocation(const Diagnostics&);

} // namespace dtc
