#pragma once
// The CUDA backend: generated kernels compiled by NVRTC, matmuls by cuBLASLt, collectives by NCCL or, between
// devices that share a GPU, by generated kernels and copies.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Runtime/comm/Processes.h"

namespace dtc {

struct CudaOptions {
  int64_t numDevices = 1; // devices of the mesh
  // "local": devices are distributed over all GPUs. "nccl": one device per GPU; with fewer GPUs devices share
  // them, which NCCL may reject. "": nccl if each of several devices has its own GPU, else local.
  std::string comm;
  Processes* processes =
      nullptr; // that the devices are in, in equal contiguous ranges, by "nccl"; null: all in this one
  double timeoutSeconds = 600;         // for NCCL collectives
  std::string dump;                    // file for the flight recorder after a failure
  std::string driver = "libcuda.so.1"; // overridden by tests
  bool deterministic = false;          // bitwise reproducible runs
  bool tf32 = false;                   // libraries may round operands of f32 matmuls to tf32
  bool cudnn = true;                   // false: use generated kernels for convolutions and attention
  bool relu = false;                   // fuse relu into the cuBLASLt epilogue (NaN becomes 0)
  bool measureSchedules = false;       // -O3: autotune kernel schedules
  std::optional<Target> target = {}; // that kernels are generated for, whatever the GPU is: that of a package
};

// Kernels that steps of any program may need besides its own: copies, lookups and transposes.
[[nodiscard]] std::vector<SourceUnit> cudaHelperKernels();

// A backend on which a load compiles the kernels of a program for a GPU that need not be here (with `nvrtc`, whose
// JitConfig collects them), and which runs nothing. Those that convert operands of matmuls are not compiled: which of
// them are needed depends on the cuBLASLt that runs. Error (Usage): not a CUDA target.
[[nodiscard]] Result<std::unique_ptr<Backend>> makeCudaCollector(const Nvrtc& nvrtc, std::string_view arch);

// `nvrtc` must outlive it. Error (Machine): no driver, no GPU, or NCCL was requested but is missing.
[[nodiscard]] Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc,
                                                               const CudaOptions& options);

} // namespace dtc
