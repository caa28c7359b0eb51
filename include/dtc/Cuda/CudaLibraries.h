#pragma once
// NVIDIA's libraries on this machine, with their locations, and the package to install where one is missing.
#include <string>
#include <vector>

namespace dtc {

struct CudaLibraryInfo {
  std::string name;    // "cuBLASLt"
  std::string use;     // its purpose: "matrix products"
  std::string path;    // "": not found
  std::string version; // "13.0.2"; "": it does not open
  std::string whyNot;  // where version is empty
};
// NVRTC, cuBLASLt, cuDNN, cuSOLVER, NCCL, in this order. Opens each.
[[nodiscard]] std::vector<CudaLibraryInfo> cudaLibraries();

} // namespace dtc
