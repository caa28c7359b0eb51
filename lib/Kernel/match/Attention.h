#pragma once
// Recognizes attention in loops.
#include "dtc/Kernel/Kernel.h"
#include "lower/Lower.h"

namespace dtc {

// A region of attention, lowered and recognized as one walk over the keys: a single store of  sum over j of
// exp(x[j] - max x) / sum exp(x - max x) * v[j],  where x[j] is any expression of the dot product q k[j] and of
// masks, and perhaps one of each row's log-sum-exp. Works on loops, so that reshapes, transposes and masks around
// it need no cases of their own. Nothing where the loops have another form: then they are printed unchanged.
[[nodiscard]] std::optional<Lowered> lowerAttention(Module&, OpId fused);

// Operations and bytes are counted for the matrix products alone.
void countAttention(const loops::Kernel&, const loops::Attention&, SizeFormula& flops);

} // namespace dtc
