#pragma once
// The target of a local function, from its attribute: `{target = "sm_90a"}`.
#include "dtc/IR/Module.h"
#include "dtc/Target/Target.h"

namespace dtc {

// Its name; empty if the function has none.
[[nodiscard]] std::string writtenTarget(const Module&, FuncId);
// A CPU if the function has none. The verifier has checked the name.
[[nodiscard]] Target targetOf(const Module&, FuncId);

} // namespace dtc
