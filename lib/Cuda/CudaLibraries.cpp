#include "dtc/Cuda/CudaLibraries.h"
#include "CudaLibrary.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Cuda/Cusolver.h"
#include "dtc/Cuda/Nccl.h"
#include "dtc/Cuda/Nvrtc.h"

namespace dtc {
static std::string
dotted(size_t number) { // 91300 is 9.13.0; cuDNN before 9 counted differently: 8906 is 8.9.6
  const size_t major = number >= 90000 ? 10000 : 1000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

// A library whose `symbol` takes no arguments and returns its version number.
static CudaLibraryInfo numbered(const char* name, const char* use, std::string_view stem, const char* symbol,
                                const char* install) {
  CudaLibraryInfo info{name, use, findCudaLibrary(stem), {}, {}};
  if (info.path.empty()) {
    info.whyNot = std::string(use) + " on the GPU need " + name + ": " + install;
    return info;
  }
  auto library = openLibrary(info.path);
  size_t (*version)() = nullptr;
  if (!library)
    info.whyNot = library.error().message;
  else if (!bindSymbol(*library, symbol, version))
    info.whyNot = info.path + " has no " + symbol;
  else
    info.version = dotted(version());
  return info;
}

// Its version is a number per part.
static CudaLibraryInfo cusolver() {
  CudaLibraryInfo info{"cuSOLVER", "matrix factorizations", findCudaLibrary("cusolver"), {}, {}};
  if (info.path.empty()) {
    info.whyNot = "matrix factorizations on the GPU need cuSOLVER: " + Cusolver::howToInstall();
    return info;
  }
  auto library = openLibrary(info.path);
  int (*property)(int part, int* value) = nullptr;
  if (!library)
    info.whyNot = library.error().message;
  else if (!bindSymbol(*library, "cusolverGetProperty", property))
    info.whyNot = info.path + " has no cusolverGetProperty";
  else
    for (int part = 0, value = 0; part < 3; ++part)
      info.version += (part ? "." : "") + std::to_string(property(part, &value) == 0 ? value : 0);
  return info;
}

std::vector<CudaLibraryInfo> cudaLibraries() {
  std::vector<CudaLibraryInfo> out;
  auto nvrtc = Nvrtc().version();
  out.push_back({"NVRTC", "compiling kernels to PTX and cubins, with or without a GPU",
                 findCudaLibrary("nvrtc"), nvrtc ? *nvrtc : "", nvrtc ? "" : nvrtc.error().message});
  out.push_back(
      numbered("cuBLASLt", "matrix products", "cublasLt", "cublasLtGetVersion",
               "install the CUDA toolkit's package libcublas-13-0, or `pip install nvidia-cublas`"));
  out.push_back(numbered("cuDNN", "convolutions and attention", "cudnn", "cudnnGetVersion",
                         Cudnn::howToInstall().c_str()));
  out.push_back(cusolver());
  auto nccl = Nccl::open();
  out.push_back({"NCCL", "collectives between GPUs", nccl ? nccl->path() : findCudaLibrary({"nccl", "rccl"}),
                 nccl ? nccl->version() : "", nccl ? "" : nccl.error().message});
  return out;
}

} // namespace dtc
