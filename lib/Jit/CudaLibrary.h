#pragma once
// Where CUDA's shared libraries lie on this machine, and opening them.
#include "dtc/Support/Result.h"
#include <initializer_list>
#include <string>
#include <string_view>

namespace dtc {

// The file of `stem` ("nvrtc", "cublasLt", "nccl"), or "": the first lib<stem>.so.N (of the versions that dtc knows) or .so in
// LD_LIBRARY_PATH, CUDA_HOME and CUDA_PATH, /usr/local/cuda*, the system's folders, and NVIDIA's Python wheels (virtual
// environment, conda, that of the shell's python3, user, system). Where the driver is of CUDA 12, the first of CUDA 12 before any of 13.
[[nodiscard]] std::string findCudaLibrary(std::string_view stem);
// The first folder's that has any of them; in one folder, the first of them. All of them count their versions alike in this.
[[nodiscard]] std::string findCudaLibrary(std::initializer_list<std::string_view> stems);

// A library's path, size and time: what was made by it can be told from what another version made without opening it.
[[nodiscard]] std::string libraryIdentity(const std::string& path);

// Opens `path` with its directory's lib<companion>* before it, if there is one (NVRTC looks for its builtins by name alone).
[[nodiscard]] Result<void*> openLibrary(const std::string& path, std::string_view companion = {});

// Opens NVRTC, where it is found. cuDNN and cuBLASLt open it by name alone when they compile a kernel, and find it so wherever it lies (a
// folder of Python's wheels is not among those that are searched). Kernels of dtc's own that were cached have not opened it.
void keepNvrtcOpen();

// table.NAME = the library's symbol; the error names what is missing.
template <class Function> [[nodiscard]] bool bindSymbol(void* library, const char* name, Function*& to);

} // namespace dtc

#include <dlfcn.h>
template <class Function> bool dtc::bindSymbol(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  return to != nullptr;
}
