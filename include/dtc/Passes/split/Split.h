#pragma once
// split: rewrites ops of local functions that the target has no kernel for, and ops whose single kernel would
// leave most of the device idle.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool splitPass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
