#pragma once
// Kernels that are one call of a function of the device header.
#include "dtc/Target/Target.h"
#include "print/Text.h"

namespace dtc {

[[nodiscard]] PrintedKernel printJoin(const loops::Kernel& k, bool blocks); // `blocks`: the CUDA form
[[nodiscard]] PrintedKernel printGrouped(const loops::Kernel& k);           // by CUDA blocks
// Up to `maxKernels` variants: for each tiling with the compiler's choice of registers, for which it may spill a
// few, and with as many as it needs.
[[nodiscard]] std::vector<PrintedKernel> printAttentionGradient(const loops::Kernel&, const Target&,
                                                                size_t maxKernels);

} // namespace dtc
