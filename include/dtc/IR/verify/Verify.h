#pragma once
// The verifier of modules.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Checks everything that the module's level requires (ir.md, architecture.md). parseModule does not run
// it; the driver does, and tests do after every pass.
[[nodiscard]] bool verifyModule(Module&, Diagnostics& diags);

// Only what concerns each of these functions alone. Where some functions do not parse, the errors of the others
// are reported in the same run.
void verifyFunctions(Module&, std::span<const FuncId>, Diagnostics& diags);

} // namespace dtc
