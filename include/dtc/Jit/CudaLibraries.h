#pragma once
// Which of NVIDIA's libraries this machine has, where, and what to install where one is missing.
#include <string>
#include <vector>

namespace dtc {

struct CudaLibraryInfo {
  std::string name;    // "cuBLASLt"
  std::string use;     // what dtc needs it for: "matrix products"
  std::string path;    // "": not found
  std::string version; // "13.0.2"; "": it does not open
  std::string whyNot;  // where version is empty
};
// NVRTC, cuBLASLt, cuDNN, NCCL, in this order. Opens each.
[[nodiscard]] std::vector<CudaLibraryInfo> cudaLibraries();

} // namespace dtc
