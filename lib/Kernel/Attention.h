#pragma once
// Which loops are an attention (private to lib/Kernel).
#include "Lower.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// The kernel as one walk over the keys: a single store of  sum over j of exp(x[j] - max x) / sum exp(x - max x) * v[j],  where
// x[j] is any expression of the sum of products q k[j] and of masks. Works on the loops, so that whatever reshapes, transposes
// and masks stand around it are one case. Nothing where the loops have another form: then they run as they stand.
[[nodiscard]] std::optional<loops::Attention> matchAttention(Lowered&);

// Operations and bytes are counted as for the products alone.
void countAttention(const loops::Kernel&, const loops::Attention&, SizeFormula& flops);

} // namespace dtc
