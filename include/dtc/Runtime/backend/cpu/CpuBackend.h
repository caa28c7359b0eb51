#pragma once
// The CPU backend: logical devices, kernels compiled in process, matmuls by oneDNN on single threads.
#include "dtc/Jit/CpuJit.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/ThreadPool.h"

namespace dtc {

// `jit` and `pool` outlive it. `numDevices`: number of devices that share the pool (with fewer devices,
// steps are split into more parts). `communicator`: the local one if null.
[[nodiscard]] std::unique_ptr<Backend> makeCpuBackend(const CpuJit& jit, ThreadPool& pool, int64_t numDevices,
                                                      const JitConfig& config, int optLevel,
                                                      std::unique_ptr<Communicator> communicator = nullptr);

// A library of the backend, opened to ask for its version.
struct CpuLibraryInfo {
  std::string name;    // "LLVM"
  std::string use;     // its purpose: "compiling kernels"
  std::string version; // "19.1.7"; "": it does not open
  std::string whyNot;  // where version is empty
};
// LLVM and oneDNN, in this order.
[[nodiscard]] std::vector<CpuLibraryInfo> cpuLibraries(const JitConfig& config = {});

} // namespace dtc
