#pragma once
// The plugin dtc-onednn, opened at its first use.
#include "OneDnnPlugin.h"

#include "dtc/Jit/Source.h"
#include "dtc/Support/Result.h"

namespace dtc {

// Looked for where JitConfig::pluginDir says. The error (Machine) says where, and what to install. It stays open.
[[nodiscard]] Result<const DtcOneDnnTable*> openOneDnn(const JitConfig& config);

} // namespace dtc
