#pragma once
// Logical GPUs on the CPU: the generated CUDA text, executed by cuda-emu. There is no vendor library to emulate, so matrix
// products are generated kernels too. A test device: slow is fine, wrong is not.
#include "dtc/Jit/CudaEmu.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// `jit` outlives it.
[[nodiscard]] std::unique_ptr<Backend> makeCudaEmuBackend(const CpuJit& jit);

} // namespace dtc
