#pragma once
// The gradient of attention as one CUDA kernel (private to lib/Kernel): lib/Jit/Device/attention_gradient.h.
#include "Lower.h"
#include "PrintCuda.h"

namespace dtc {

// A region of one op whose record says that it is one kernel, with nothing around it. Nothing where it is another op's.
[[nodiscard]] std::optional<Lowered> matchAttentionGradient(Module&, OpId fused);
[[nodiscard]] PrintedKernel printAttentionGradient(const loops::Kernel&);
// Seven products of each pair of a query and a key are made; five of them are the gradient's own.
[[nodiscard]] std::vector<SizeFormula::Factor> flopsOf(const loops::AttentionGradient&);

} // namespace dtc
