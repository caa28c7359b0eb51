#pragma once
// Recognizes attention kernels that a library supports.
#include "dtc/Kernel/Kernel.h"
#include "lower/Lower.h"

namespace dtc {

// Attention of dtypes in the set (bit dtype) without a mask, whose row i attends to all keys or to a band
// with constant bounds, with strided operands; its `own` is not filled in. Nothing for any other attention.
[[nodiscard]] std::optional<AttentionCall> attentionCall(const Lowered& lowered, uint32_t dtypes);

} // namespace dtc
