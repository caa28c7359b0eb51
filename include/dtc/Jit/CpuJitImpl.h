#pragma once
// Shared by CpuJit and CudaEmu: cached compilation of units to loaded objects.
#include "dtc/Jit/ClangLibrary.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Jit/ElfLoader.h"
#include "dtc/Jit/KernelCache.h"
#include "dtc/Jit/PrecompiledPrologue.h"
#include "dtc/Jit/Prologue.h"

namespace dtc {

// One compilation mode: the prologue and flags that all units of a call share.
struct CompileMode {
  const Prologue& prologue;
  std::vector<const char*> flags;
  CpuCompileOptions options;
  bool sharedAsOffsets = false, checkAccesses = false;
  bool usePrecompiled = true; // the precompiled prologue, if there is one
};

struct CpuJit::Impl {
  explicit Impl(JitConfig c)
      : config(std::move(c)), clang(config),
        cache(config.useCache ? KernelCache(config.cacheDir) : KernelCache()) {}

  // The objects of `units`, in order, from the cache or compiled.
  [[nodiscard]] Result<std::vector<std::string>>
  objects(std::span<const SourceUnit> units, const CompileMode&, size_t* numCompiled = nullptr) const;
  // Bypasses the cache: an object per unit, or the text of one unit.
  [[nodiscard]] Result<std::vector<std::string>> run(std::span<const SourceUnit* const> units,
                                                     const CompileMode&, DtcClangOutput) const;

  // Compiles units `which` together into `out` and the cache.
  [[nodiscard]] std::optional<Error> compileBatch(std::span<const SourceUnit> units,
                                                  std::span<const size_t> which, const CompileMode&,
                                                  const std::vector<std::string>& keys,
                                                  std::vector<std::string>& out) const;

  JitConfig config;
  ClangLibrary clang;
  PrecompiledPrologues precompiled;
  KernelCache cache;
};

struct CpuModule::Impl {
  std::vector<std::shared_ptr<const LoadedObject>> objects;
  std::vector<std::pair<std::string, void*>> symbols; // sorted by name
};

// Loads all objects and lists their symbols; one name in two objects is a Bug.
[[nodiscard]] Result<CpuModule> linkObjects(std::span<const std::string> objects,
                                            std::span<const SourceUnit> units,
                                            std::span<const HostSymbol> hosts);

// Without units and output. Refers to both arguments.
[[nodiscard]] DtcClangRequest requestOf(const CompileMode&, const std::string& prologue);
[[nodiscard]] const char* llvmCpuName(CpuLevel);
[[nodiscard]] std::vector<const char*> cpuFlags();

} // namespace dtc
