#pragma once
// Attention and its gradient as graphs of cuDNN's operations (private to lib/Jit).
#include "CudnnGraph.h"
#include "dtc/Jit/Cudnn.h"

namespace dtc {

// Writes the operations; the tensors in memory are numbered as CudnnAttention's are.
void writeAttention(CudnnGraph& graph, const CudnnAttention& attention);

} // namespace dtc
