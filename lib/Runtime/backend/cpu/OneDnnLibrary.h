#pragma once
// The plugin dtc-onednn, loaded on first use.
#include "backend/cpu/OneDnnPlugin.h"

#include "dtc/Jit/Source.h"
#include "dtc/Support/Result.h"

namespace dtc {

inline constexpr int64_t kPartFlops = 1 << 20; // minimum work per thread

// Searched in JitConfig::pluginDir; never unloaded. Error (Machine): not found; the message lists the folders
// searched.
[[nodiscard]] Result<const DtcOneDnnTable*> openOneDnn(const JitConfig& config);

} // namespace dtc
