#pragma once
// C++ source text -> machine code of this process. Clang runs in process, in a plugin that is opened at the
// first compile that is not in the cache; loading cached code needs neither Clang nor LLVM.
#include "dtc/Jit/Source.h"
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace dtc {

// The highest that this machine supports; the environment variable can request a lower one (used by tests).
[[nodiscard]] CpuLevel hostCpuLevel();
inline constexpr const char* kCpuLevelVariable = "DTC_CPU_LEVEL";
[[nodiscard]] std::string_view cpuLevelName(CpuLevel); // "generic" "avx2" "avx512"
[[nodiscard]] std::optional<CpuLevel> parseCpuLevel(std::string_view name);
[[nodiscard]] int vectorBytes(CpuLevel); // 16, 32, 64: the widest vector that fits a register

struct CpuCompileOptions {
  CpuLevel level = hostCpuLevel();
  // 0: none (for debugging); 1: the short pipeline, suited to explicit-vector code; 3: Clang's -O3
  // (auto-vectorized).
  int optLevel = 1;
};

// Loaded code, shared between copies; it stays mapped while one of them exists.
class CpuModule {
public:
  // The address of an extern "C" function or object of any of the units, or null.
  [[nodiscard]] void* find(std::string_view name) const;
  template <class Function> [[nodiscard]] Function* function(std::string_view name) const {
    return reinterpret_cast<Function*>(find(name));
  }
  struct Impl;
  explicit CpuModule(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl_;
};

// The statistics of one call of compile(), for --timing.
struct CpuCompileReport {
  size_t units = 0, compiled = 0; // the others were in the cache
  double compileMs = 0;
};

enum class CpuText : uint8_t { Llvm, Asm }; // `--emit llvm|asm`

// Thread-safe.
class CpuJit : NonCopyable {
public:
  explicit CpuJit(JitConfig config = {});
  ~CpuJit();

  // Compiles the units that are not in the cache, several at a time, and loads all of them. A function may be
  // defined in one unit only; units do not see each other's functions. Kernels may call memcpy, memmove,
  // memset, memcmp and the functions of <math.h>; anything else is an unknown symbol.
  //
  // Errors: Machine where the plugin is missing, Bug where the source does not compile or link (with Clang's
  // messages and the source).
  [[nodiscard]] Result<CpuModule> compile(std::span<const SourceUnit> units,
                                          const CpuCompileOptions& options = {},
                                          CpuCompileReport* report = nullptr) const;

  // The unit's optimized LLVM IR or assembly, as text.
  [[nodiscard]] Result<std::string> emit(const SourceUnit& unit, CpuText what,
                                         const CpuCompileOptions& options = {}) const;

  struct Impl;
  [[nodiscard]] const Impl& impl() const { return *impl_; } // for CudaEmu

private:
  std::unique_ptr<Impl> impl_;
};

} // namespace dtc
