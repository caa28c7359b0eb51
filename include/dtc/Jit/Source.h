#pragma once
// The input of the JIT compilers: generated source, and the cache for its output.
#include "dtc/Support/LibraryIdentity.h"
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace dtc {

// One translation unit of generated source: its functions are `extern "C"`, it includes nothing, and it may
// use every name of its device header (lib/Kernel/device/), which is prepended. `name` is used in messages
// ("softmax_3"). Line numbers in messages count from the unit's own first line.
struct SourceUnit {
  std::string name;
  std::string text;
};

// The instruction sets that kernels are generated for; each contains the one before.
//   Generic  x86-64 as every processor has it (SSE2)
//   Avx2     AVX2, FMA, F16C, BMI (x86-64-v3)
//   Avx512   AVX-512 F, BW, CD, DQ, VL (x86-64-v4)
enum class CpuLevel : uint8_t { Generic, Avx2, Avx512 };

// Compiled kernels of one program, by a key that contains all that they depend on.
struct KernelObjects {
  std::mutex mutex;
  std::map<std::string, std::string> byKey;
};

// The configuration of the JIT compilers, passed down from the driver's environment.
struct JitConfig {
  bool useCache = true;
  std::string cacheDir;  // "": $XDG_CACHE_HOME/dtc, else ~/.cache/dtc
  std::string pluginDir; // "": see LibraryIdentity.h
  int threads = 0;       // concurrent compiles; 0: the number of cores
  // For programs that are compiled ahead of time: where to find their kernels, so that nothing is compiled (but
  // kernels of CUDA libraries' operands and of collectives, if they are not there); and where to put each one. Null:
  // neither.
  std::shared_ptr<const KernelObjects> packaged;
  std::shared_ptr<KernelObjects> collected;
  std::optional<CpuLevel> level; // of CPU kernels; empty: hostCpuLevel()
  std::string cudaArch;          // of CUDA kernels, "sm_90a"; empty: what the GPU runs
};

[[nodiscard]] inline std::vector<std::string> pluginFolders(const JitConfig& config) {
  return config.pluginDir.empty() ? pluginFolders() : std::vector<std::string>{config.pluginDir};
}

} // namespace dtc
