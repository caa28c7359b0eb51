#pragma once
// The target of compilation. Passes use it to decide what to split, the kernel lowering to select library
// calls and block sizes.
#include "dtc/Support/DType.h"
#include "dtc/Support/Result.h"
#include <string>
#include <string_view>

namespace dtc {

[[nodiscard]] constexpr uint32_t dtypeBit(DType d) { return 1u << static_cast<int>(d); }

// A pure function of the name: nothing is probed, so the output of passes is the same on every machine. A
// backend restricts the fields to the capabilities of its device.
struct Target {
  std::string name = "cpu"; // or "sm_90a" and the like
  bool gpu = false;

  // Kernels: CUDA for GPUs, C++ for CPUs.
  int vectorBytes = 32;    // CPU: bytes of a SIMD register: 16, 32 or 64
  int sharedBytes = 0;     // GPU: shared memory per block, static and dynamic
  int clusterBlocks = 1;   // GPU: max blocks per cluster; 1: no clusters
  int multiprocessors = 0; // GPU: of the largest model with this name

  // Library support as sets of dtypeBit(); other dtypes use generated kernels.
  // f8: also operands of wider results; i8 and u8: only operands of i32 results, u8 not as the second one.
  uint32_t gemmDTypes =
      dtypeBit(DType::F32) | dtypeBit(DType::BF16) | dtypeBit(DType::I8) | dtypeBit(DType::U8);
  uint32_t convDTypes = 0;
  uint32_t attentionDTypes = 0;
  bool gemmEpilogues = false; // the GEMM library fuses scales, a bias, a residual and tanh gelu
  bool gemmRelu = false;      // and relu (NaN becomes 0)

  [[nodiscard]] Target withoutLibraries() const;
  // The dtypes of matmul operands that are converted to the dtype of the result as part of the matmul.
  [[nodiscard]] uint32_t narrowDTypes() const { return gemmDTypes & kNarrowDTypes; }

private:
  static constexpr uint32_t kNarrowDTypes =
      dtypeBit(DType::F8E4M3) | dtypeBit(DType::F8E5M2) | dtypeBit(DType::I8) | dtypeBit(DType::U8);
};

// Parses "cpu" or a GPU target: sm_80 or later, from sm_90 on also with the suffix "a" (architecture-specific
// instructions). Support by the installed NVRTC is not checked. Error (Usage): unknown target.
[[nodiscard]] Result<Target> targetNamed(std::string_view name);
[[nodiscard]] bool isCudaArch(std::string_view name);
[[nodiscard]] std::string cudaArchList(); // "sm_80, sm_86, …"

} // namespace dtc
