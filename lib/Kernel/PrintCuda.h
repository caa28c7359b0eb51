#pragma once
#include "Emit.h"

namespace dtc {

// Prints the loops as CUDA: one block a unit (a row, or a run of elements), the lanes loops spread over its threads,
// reductions across them by dtc_block_*. What does not depend on the thread is computed by all of them. Rows are walked as
// RowSchedule.h says, in up to `most` ways, the likely best first; the last resort are plain loops.
[[nodiscard]] std::vector<PrintedKernel> printCuda(const loops::Kernel& k, const CudaTarget& target,
                                                   size_t most);

} // namespace dtc
