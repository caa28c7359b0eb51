#pragma once
// What ops with sizes as operands share with those without. Private to lib/Import.
#include "HloContext.h"

namespace dtc {

// broadcast_in_dim of operand 0 to the result's type.
[[nodiscard]] bool convertBroadcastInDim(HloContext&);
// iota of the result's type.
[[nodiscard]] bool convertIota(HloContext&);

} // namespace dtc
