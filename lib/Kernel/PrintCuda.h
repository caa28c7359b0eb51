#pragma once
#include "Emit.h"

namespace dtc {

// Prints the loops as CUDA: one block a unit (a row, or a run of elements), the lanes loops spread over its threads,
// reductions across them by dtc_block_*. What does not depend on the thread is computed by all of them.
[[nodiscard]] PrintedKernel printCuda(const loops::Kernel& k);

} // namespace dtc
