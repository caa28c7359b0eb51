#include "backend/cpu/OneDnnLibrary.h"

#include "dtc/Support/OutOfMemory.h"

#include <dlfcn.h>
#include <filesystem>
#include <vector>

namespace dtc {

Result<const DtcOneDnnTable*> openOneDnn(const JitConfig& config) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!config.pluginDir.empty())
    folders = {config.pluginDir};
  else if (!error)
    folders = {binary.parent_path(), (binary.parent_path() / "../lib/dtc").lexically_normal()};
  std::string searched;
  for (const auto& folder : folders) {
    searched += (searched.empty() ? "" : " and ") + folder.string();
    std::string path = (folder / "dtc-onednn.so").string();
    if (!std::filesystem::exists(path, error)) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return machineError("cannot open the plugin " + path + ": " + whyNotOpened(dlerror()));
    auto entry = reinterpret_cast<DtcOneDnnEntry>(dlsym(library, "dtcOneDnnTable"));
    if (!entry || entry()->abi != kDtcOneDnnAbi)
      return machineError("the plugin " + path +
                          " belongs to another version of dtc; build or install both together");
    return entry();
  }
  return machineError(
      "matmuls and convolutions need the plugin dtc-onednn.so, which was not found in " + searched +
      "; build the target dtc-onednn (with oneDNN installed: libdnnl-dev), or install all of dtc");
}

} // namespace dtc
