#pragma once
// Logical devices on the CPU: generated kernels compiled in process, matrix products by oneDNN, one thread each.
#include "dtc/Jit/CpuJit.h"
#include "dtc/Runtime/Backend.h"
#include "dtc/Support/ThreadPool.h"

namespace dtc {

// `jit` and `pool` outlive it. `places`: how many devices share the pool (steps of few devices are cut into more parts).
[[nodiscard]] std::unique_ptr<Backend> makeCpuBackend(const CpuJit& jit, ThreadPool& pool, int64_t places,
                                                      const JitConfig& config, int optLevel);

} // namespace dtc
