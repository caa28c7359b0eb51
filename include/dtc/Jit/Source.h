#pragma once
// The input of the JIT compilers: generated source, and the cache for its output.
#include "dtc/Support/LibraryIdentity.h"

namespace dtc {

// One translation unit of generated source: its functions are `extern "C"`, it includes nothing, and it may
// use every name of its device header (lib/Kernel/device/), which is prepended. `name` is used in messages
// ("softmax_3"). Line numbers in messages count from the unit's own first line.
struct SourceUnit {
  std::string name;
  std::string text;
};

// The configuration of the JIT compilers, passed down from the driver's environment.
struct JitConfig {
  bool useCache = true;
  std::string cacheDir;  // "": $XDG_CACHE_HOME/dtc, else ~/.cache/dtc
  std::string pluginDir; // "": see LibraryIdentity.h
  int threads = 0;       // concurrent compiles; 0: the number of cores
};

[[nodiscard]] inline std::vector<std::string> pluginFolders(const JitConfig& config) {
  return config.pluginDir.empty() ? pluginFolders() : std::vector<std::string>{config.pluginDir};
}

} // namespace dtc
