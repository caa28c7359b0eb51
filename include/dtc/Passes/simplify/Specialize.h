#pragma once
// specialize: one copy of each called function per binding of its sizes (IR/CallSizes.h).
//
// Afterwards caller and callee use the same sizes, as every pass but inline requires. inline runs it first;
// run separately it keeps the calls and shows the copies.
#include "dtc/Passes/Pass.h"

namespace dtc {

// True if some call binds a size of its callee to anything but the caller's size of that name.
[[nodiscard]] bool bindsSizes(Module&);
// Functions without remaining calls are removed, except those in `keep`. False, with diagnostics, if a copy
// is not a valid function: a strided sharding that does not divide its dim, a size that does not fit a
// literal's dtype.
[[nodiscard]] bool specialize(Module&, Diagnostics&, std::span<const FuncId> keep = {});

[[nodiscard]] bool specializePass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
