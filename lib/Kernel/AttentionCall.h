#pragma once
// Which kernels of attention a library may make instead (private to lib/Kernel).
#include "Lower.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// An attention of dtypes of the set (bit dtype) without a mask, whose row i sees all keys or those of a band whose bounds are numbers, of
// operands that lie at fixed distances; its `own` is not filled in. Nothing where it is another.
[[nodiscard]] std::optional<AttentionCall> attentionCall(const Lowered& lowered, uint32_t dtypes);

} // namespace dtc
