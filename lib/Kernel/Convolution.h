#pragma once
// Which regions are a convolution that a library takes (private to lib/Kernel).
#include "dtc/IR/Module.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// A region of one convolution of one to three spatial dims, with nothing but other orders of its dims around it; its `own` is not
// filled in. Where the window is read with its first two dims swapped, this is the gradient of a window (as autodiff writes it: images
// and channels change places, and so do stride and dilation).
[[nodiscard]] std::optional<ConvCall> matchConvolution(Module&, OpId fused, uint32_t dtypes);

} // namespace dtc
