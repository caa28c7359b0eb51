#pragma once
// What the compilers of this floor are given: generated source, and where to keep what they make of it.
#include <string>

namespace dtc {

// One translation unit of generated source: its functions are `extern "C"`, it includes nothing, and it may use
// every name of its device header (lib/Jit/Device/), which is put before it. `name` stands in messages ("softmax_3").
// Line numbers in messages count from the unit's own first line.
struct SourceUnit {
  std::string name;
  std::string text;
};

// How the compilers of this floor work, handed down from the driver's environment.
struct JitConfig {
  bool useCache = true;
  std::string cacheDir;  // "": $XDG_CACHE_HOME/dtc, else ~/.cache/dtc
  std::string pluginDir; // "": next to the executable, then ../lib/dtc
  int threads = 0;       // compiles at a time; 0: as many as there are cores
};

} // namespace dtc
