#pragma once
// The gradient of attention as one CUDA kernel: lib/Kernel/device/attention_gradient.h.
#include "dtc/Kernel/Kernel.h"
#include "lower/Lower.h"

namespace dtc {

// A region of one op whose record declares it one kernel, with nothing around it. Nothing for any other op.
[[nodiscard]] std::optional<Lowered> matchAttentionGradient(Module&, OpId fused);
// The same as a library call, like attentionCall() for attention; `fused` is the matched region.
[[nodiscard]] std::optional<AttentionCall> attentionGradientCall(const Module&, OpId fused, const Lowered&,
                                                                 uint32_t dtypes);
// Seven products of each pair of a query and a key are computed; five of them count for the gradient.
[[nodiscard]] std::vector<SizeFormula::Factor> flopsOf(const loops::AttentionGradient&);

} // namespace dtc
