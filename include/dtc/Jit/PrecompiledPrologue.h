#pragma once
// The prologue of CPU kernels as Clang's syntax tree, which Clang reads in parts: parsing it takes a quarter of the
// time to compile a small kernel. The build makes a file per CPU level, in the folder of the plugin dtc-jit-clang.
#include "dtc/Jit/ClangPlugin.h"
#include "dtc/Jit/Source.h"
#include "dtc/Support/Result.h"
#include <mutex>
#include <optional>
#include <string>

namespace dtc {

struct CompileMode;

[[nodiscard]] std::string precompiledPrologueName(CpuLevel); // "dtc-prologue-avx2.pch"

// The contents of such a file: a key, then Clang's bytes.
[[nodiscard]] Result<std::string> precompilePrologue(const DtcClangTable&, const CompileMode&);

// The files, each read at its first use.
class PrecompiledPrologues {
public:
  // Clang's bytes; empty for other prologues than that of CPU kernels, and where `folder` has no file of this
  // prologue, these flags and this Clang: then the prologue is parsed, with the same result.
  [[nodiscard]] std::string_view find(const std::string& folder, const DtcClangTable&,
                                      const CompileMode&) const;

private:
  mutable std::mutex mutex_;
  mutable std::optional<std::string> files_[3]; // by CpuLevel
};

} // namespace dtc
