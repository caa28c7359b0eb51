#pragma once
// Converters shared by ops with sizes as operands and those without.
#include "import/HloContext.h"

namespace dtc {

// broadcast_in_dim of operand 0 to the result's type.
[[nodiscard]] bool convertBroadcastInDim(HloContext&);
// iota of the result's type.
[[nodiscard]] bool convertIota(HloContext&);

} // namespace dtc
