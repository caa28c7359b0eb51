#pragma once
#include "print/Text.h"

namespace dtc {

// Prints the loops as CUDA: one block per unit (a row, or a run of elements), the lane loops spread over its
// threads, reductions across them by dtc_block_*. Values that do not depend on the thread are computed by all
// of them. Rows follow RowSchedule.h, in up to `most` variants, in order of estimated speed; the last resort
// are plain loops.
[[nodiscard]] std::vector<PrintedKernel> printCuda(const loops::Kernel& k, const Target& target,
                                                   size_t maxKernels);

} // namespace dtc
