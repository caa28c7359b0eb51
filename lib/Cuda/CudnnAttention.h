#pragma once
// Attention and its gradient as graphs of cuDNN operations.
#include "CudnnGraph.h"
#include "dtc/Cuda/Cudnn.h"

namespace dtc {

// Writes the operations; the tensors in memory are numbered like CudnnAttention's.
void writeAttention(CudnnGraph& graph, const CudnnAttention& attention);

} // namespace dtc
