#pragma once
// Reductions by kind.
#include "dtc/Ops/OpFunctions.h"

namespace dtc {

// The reduction of this kind (sum, prod, max, min, any, all).
[[nodiscard]] Expr reduced(PendingKind, Expr, const ops::SumArgs&);

} // namespace dtc
