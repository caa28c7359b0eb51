#pragma once
// The kernels that a CUDA text defines.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

struct ScannedKernel {
  std::string name;
  uint32_t bound = 1024;           // the first number of __launch_bounds__
  uint32_t cluster[3] = {1, 1, 1}; // __cluster_dims__
};

// Every `__global__ … NAME(` outside of comments and strings, in order.
[[nodiscard]] std::vector<ScannedKernel> scanKernels(std::string_view text);

} // namespace dtc
