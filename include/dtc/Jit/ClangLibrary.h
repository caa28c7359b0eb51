#pragma once
// The plugin dtc-jit-clang, opened at its first use.
#include "dtc/Jit/ClangPlugin.h"
#include "dtc/Jit/Source.h"
#include "dtc/Support/Result.h"
#include <mutex>
#include <optional>
#include <string>

namespace dtc {

class ClangLibrary {
public:
  explicit ClangLibrary(const JitConfig& config);

  // The identity of the plugin, on which its output depends besides the request: its file, size and time.
  // Does not open it; "" without a plugin.
  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] const std::string& folder() const { return folder_; } // of the plugin; "" without one
  // Opens the plugin; the error lists the searched locations.
  [[nodiscard]] Result<const DtcClangTable*> table() const;

private:
  std::string folder_, path_, identity_, searched_;
  mutable std::mutex mutex_;
  mutable std::optional<Result<const DtcClangTable*>> table_;
};

} // namespace dtc
