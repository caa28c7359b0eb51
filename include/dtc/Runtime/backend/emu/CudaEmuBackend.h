#pragma once
// The emulator backend: logical GPUs that execute the generated CUDA source on the CPU. There are no vendor
// libraries, so matmuls are generated kernels too. For tests: correct, not fast.
#include "dtc/Emu/CudaEmu.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// `jit` outlives it. `checks`: check all memory accesses (see CudaEmu.h) and run kernels in two
// thread orders; without, only barriers, shuffles and votes are checked.
[[nodiscard]] std::unique_ptr<Backend> makeCudaEmuBackend(const CpuJit& jit, bool checks = true);

} // namespace dtc
