#pragma once
// Private to lib/Import.
#include "HloContext.h"

namespace dtc {

// The convolution of operands 0 and 1; `padding`, where given, [low, high] per spatial dim instead of the attribute's.
[[nodiscard]] bool convertConvolution(HloContext&, const std::vector<int64_t>* padding);

} // namespace dtc
