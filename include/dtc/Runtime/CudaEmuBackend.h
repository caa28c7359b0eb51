#pragma once
// Logical GPUs on the CPU: the generated CUDA text, executed by cuda-emu. There is no vendor library to emulate, so matrix
// products are generated kernels too. A test device: slow is fine, wrong is not.
#include "dtc/Jit/CudaEmu.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// `jit` outlives it. `checks`: every access of every kernel is looked at (CudaEmu.h says for what), and kernels run in two
// orders; without, only barriers, shuffles and votes are.
[[nodiscard]] std::unique_ptr<Backend> makeCudaEmuBackend(const CpuJit& jit, bool checks = true);

} // namespace dtc
