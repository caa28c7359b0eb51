#pragma once
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Rows that belong to groups, each with its own matrix (the op's summary describes the operands).
[[nodiscard]] bool isGroupedMatmul(const OpRecord&);

} // namespace dtc
