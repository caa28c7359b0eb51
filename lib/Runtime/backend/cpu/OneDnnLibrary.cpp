#include "backend/cpu/OneDnnLibrary.h"

#include "dtc/Support/OutOfMemory.h"

#include <dlfcn.h>

namespace dtc {

Result<const DtcOneDnnTable*> openOneDnn(const JitConfig& config) {
  std::string searched;
  for (const std::string& folder : pluginFolders(config)) {
    searched += (searched.empty() ? "" : " and ") + folder;
    const std::string path = folder + "/dtc-onednn.so";
    if (libraryIdentity(path).empty()) continue;
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
