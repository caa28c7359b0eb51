#pragma once
// Attention as a call of the device header's function, with lambdas that compute the addresses.
#include "print/Emitter.h"

namespace dtc {

// True if the CUDA form has a tile that fits shared memory. If not, or if the sizes of a row are unknown, the
// loops are printed unchanged.
[[nodiscard]] bool hasAttentionTile(const loops::Kernel& k);
// The kernel's attention, with the emitter of the target: by blocks of rows in its lanes, or, where it has
// none, by CUDA blocks.
void printAttention(Emitter& e, const loops::Kernel& k, PrintedKernel& out);

} // namespace dtc
