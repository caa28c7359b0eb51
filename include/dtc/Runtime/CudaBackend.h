#pragma once
// Logical devices as streams of one GPU: generated kernels compiled by NVRTC, matrix products by cuBLASLt, collectives by
// way of the host's memory.
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Jit/Nvrtc.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// On the machine's first GPU; `nvrtc` outlives it. Error (Machine): no driver, no GPU.
[[nodiscard]] Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc);

} // namespace dtc
