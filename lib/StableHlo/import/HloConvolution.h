#pragma once
#include "import/HloContext.h"

namespace dtc {

// The convolution of operands 0 and 1; `padding`, where given, replaces the attribute's: [low, high] per
// spatial dim.
[[nodiscard]] bool convertConvolution(HloContext&, const std::vector<int64_t>* padding);

} // namespace dtc
