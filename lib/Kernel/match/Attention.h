#pragma once
// Recognizes attention in loops.
#include "dtc/Kernel/Kernel.h"
#include "lower/Lower.h"

namespace dtc {

// The kernel as one walk over the keys: a single store of  sum over j of exp(x[j] - max x) / sum exp(x - max
// x) * v[j],  where x[j] is any expression of the dot product q k[j] and of masks. Works on loops, so that
// reshapes, transposes and masks around it need no cases of their own. Nothing where the loops have another
// form: then they are printed unchanged.
[[nodiscard]] std::optional<loops::Attention> matchAttention(Lowered&);

// Operations and bytes are counted for the matrix products alone.
void countAttention(const loops::Kernel&, const loops::Attention&, SizeFormula& flops);

} // namespace dtc
