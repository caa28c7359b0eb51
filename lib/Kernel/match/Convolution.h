#pragma once
// Recognizes convolutions that a library supports.
#include "dtc/IR/Module.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// A region of one convolution of one to three spatial dims, with only permutations of its dims around it; its
// `own` is not filled in. Where the window is read with its first two dims swapped, this is a window gradient
// (as autodiff writes it: images and channels are swapped, and so are stride and dilation).
[[nodiscard]] std::optional<ConvCall> matchConvolution(Module&, OpId fused, uint32_t dtypes);

} // namespace dtc
