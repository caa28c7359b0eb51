#pragma once
// The gradient of attention as one CUDA kernel (private to lib/Kernel): lib/Jit/Device/attention_gradient.h.
#include "Lower.h"
#include "PrintCuda.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// A region of one op whose record says that it is one kernel, with nothing around it. Nothing where it is another op's.
[[nodiscard]] std::optional<Lowered> matchAttentionGradient(Module&, OpId fused);
// The same as a library's, as attentionCall() for attention; `fused` is what it was matched in.
[[nodiscard]] std::optional<AttentionCall> attentionGradientCall(const Module&, OpId fused, const Lowered&,
                                                                 uint32_t dtypes);
// In up to `most` ways, at most two: with as many registers as the compiler thinks best, for which it may spill a few, and with as
// many as it needs.
[[nodiscard]] std::vector<PrintedKernel> printAttentionGradient(const loops::Kernel&, size_t most);
// Seven products of each pair of a query and a key are made; five of them are the gradient's own.
[[nodiscard]] std::vector<SizeFormula::Factor> flopsOf(const loops::AttentionGradient&);

} // namespace dtc
