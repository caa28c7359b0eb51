#include "dtc/Jit/ClangLibrary.h"
#include "dtc/Support/LibraryIdentity.h"
#include "dtc/Support/OutOfMemory.h"
#include <dlfcn.h>

namespace dtc {
constexpr const char* kFile = "dtc-jit-clang.so";

ClangLibrary::ClangLibrary(const JitConfig& config) {
  for (const std::string& folder : pluginFolders(config)) {
    const std::string path = folder + "/" + kFile;
    searched_ += (searched_.empty() ? "" : " and ") + folder;
    identity_ = libraryIdentity(path);
    if (identity_.empty()) continue;
    folder_ = folder, path_ = path;
    return;
  }
}

Result<const DtcClangTable*> ClangLibrary::table() const {
  std::lock_guard lock(mutex_);
  if (table_) return *table_;
  auto open = [&]() -> Result<const DtcClangTable*> {
    if (path_.empty())
      return machineError(
          std::string("compiling kernels needs the plugin ") + kFile + ", which is not in " + searched_ +
          "; build the target dtc-jit-clang (with LLVM and Clang 18 or 19 installed), or install all of dtc");
    void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return machineError(std::string("cannot open the plugin ") + path_ + ": " + whyNotOpened(dlerror()));
    auto entry = reinterpret_cast<DtcClangEntry>(dlsym(library, "dtcClangTable"));
    if (!entry || entry()->abi != kDtcClangAbi)
      return machineError("the plugin " + path_ +
                          " belongs to another version of dtc; build or install both together");
    return entry();
  };
  table_.emplace(open());
  return *table_;
}

} // namespace dtc
