#pragma once
// The gradient of attention as one CUDA kernel: lib/Kernel/device/attention_gradient.h.
#include "dtc/Kernel/Kernel.h"
#include "lower/Lower.h"

namespace dtc {

// A region of one op whose record declares it one kernel, perhaps with data movement of its operands and
// results around it. Nothing for any other op, and for layouts that are not rows.
[[nodiscard]] std::optional<Lowered> matchAttentionGradient(Module&, OpId fused);
// The same as a library call, like attentionCall() for attention.
[[nodiscard]] std::optional<AttentionCall> attentionGradientCall(const Lowered&, uint32_t dtypes);
// Seven products of each pair of a query and a key are computed; five of them count for the gradient.
[[nodiscard]] std::vector<SizeFormula::Factor> flopsOf(const loops::AttentionGradient&);

} // namespace dtc
