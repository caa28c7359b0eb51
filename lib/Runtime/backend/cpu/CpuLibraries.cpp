#include "backend/cpu/OneDnnLibrary.h"
#include "dtc/Jit/ClangLibrary.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"

namespace dtc {

static CpuLibraryInfo llvm(const JitConfig& config) {
  CpuLibraryInfo info{"LLVM", "compiling kernels", {}, {}};
  const ClangLibrary library(config);
  const auto table = library.table();
  (table ? info.version : info.whyNot) = table ? (*table)->version : table.error().message;
  return info;
}

static CpuLibraryInfo oneDnn(const JitConfig& config) {
  CpuLibraryInfo info{"oneDNN", "matrix products and convolutions", {}, {}};
  const auto table = openOneDnn(config);
  if (!table) {
    info.whyNot = table.error().message;
    return info;
  }
  int parts[3] = {};
  (*table)->version(&parts[0], &parts[1], &parts[2]);
  for (int part : parts) info.version += (info.version.empty() ? "" : ".") + std::to_string(part);
  return info;
}

std::vector<CpuLibraryInfo> cpuLibraries(const JitConfig& config) { return {llvm(config), oneDnn(config)}; }

} // namespace dtc
