#pragma once
// Part of fuse: layouts of the tensors of convolutions.
#include "fuse/OperandLayouts.h"

namespace dtc {

// A GPU library computes a convolution of one of the dtypes whose tensors all have the channels first in memory
// (images, channels, spatial dims), or all have them last. One of the two is selected by bytes: tensors that
// transposes make of values in that layout are read from these, and written to them; others are copied, by
// transposes to the layout and back. In 16 bits, channels first costs the library copies of its own.
void layOutConvolutions(Module& m, BlockId block, FusionForms& forms, uint32_t dtypes, OperandLayouts& out);

} // namespace dtc
