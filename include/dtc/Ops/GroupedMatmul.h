#pragma once
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Rows that belong to groups, each with a matrix of its own (the op's summary says what its operands are).
[[nodiscard]] bool isGroupedMatmul(const OpRecord&);

} // namespace dtc
