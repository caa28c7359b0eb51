#pragma once
// Logical devices on real GPUs: generated kernels compiled by NVRTC, matrix products by cuBLASLt, collectives by NCCL, or by
// copies and kernels of our own between devices that share one GPU.
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Jit/Nvrtc.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

struct CudaOptions {
  int64_t places = 1; // devices of the mesh
  // "local": spread over all GPUs. "nccl": each on a GPU of its own; where there are fewer GPUs they share them, and NCCL says whether
  // it goes along. "": NCCL where there is a GPU for each of several devices, else local.
  std::string comm;
  double timeoutSeconds = 600;         // of NCCL's collectives
  std::string dump;                    // where a failure writes the flight recorder to
  std::string driver = "libcuda.so.1"; // tests name another
  bool deterministic = false;          // the same bits in every run
  bool tf32 = false;                   // libraries may cut the operands of f32 products to tf32
  bool cudnn = true;                   // false: generated kernels make convolutions and attention
  bool relu = false;                   // cuBLASLt applies relu to products, which makes 0 of NaN
  bool measureSchedules = false;       // -O3: the fastest of a few for each kernel, once
};

// `nvrtc` outlives it. Error (Machine): no driver, no GPU, no NCCL where it is asked for.
[[nodiscard]] Result<std::unique_ptr<Backend>> makeCudaBackend(const Nvrtc& nvrtc,
                                                               const CudaOptions& options);

} // namespace dtc
