#pragma once
// Finds and opens CUDA's shared libraries.
#include "dtc/Support/Result.h"
#include <initializer_list>
#include <string>
#include <string_view>

namespace dtc {

// The file of `stem` ("nvrtc", "cublasLt", "nccl"), or "": the first lib<stem>.so.N (of the supported
// versions) or .so in LD_LIBRARY_PATH, CUDA_HOME and CUDA_PATH, /usr/local/cuda*, the system's folders, and
// NVIDIA's Python wheels (virtual environment, conda, that of the shell's python3, user, system). With a
// driver of CUDA 12, libraries of CUDA 12 come before those of 13.
[[nodiscard]] std::string findCudaLibrary(std::string_view stem);
// The library from the first folder that has any of them; within one folder, the first of the list. All share
// one version numbering.
[[nodiscard]] std::string findCudaLibrary(std::initializer_list<std::string_view> stems);

// Opens `path` after its directory's lib<companion>*, if there is one (NVRTC looks up its builtins by name
// alone).
[[nodiscard]] Result<void*> openLibrary(const std::string& path, std::string_view companion = {});

// Opens NVRTC, if found. cuDNN and cuBLASLt open it by name alone when they compile a kernel, and then find
// it in any folder (those of Python's wheels are not searched otherwise). If dtc's own kernels were cached,
// NVRTC has not been opened before.
void keepNvrtcOpen();

// table.NAME = the library's symbol; the error names the missing one.
template <class Function> [[nodiscard]] bool bindSymbol(void* library, const char* name, Function*& to);

} // namespace dtc

#include <dlfcn.h>
template <class Function> bool dtc::bindSymbol(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  return to != nullptr;
}
