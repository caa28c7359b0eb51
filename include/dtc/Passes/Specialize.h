#pragma once
// specialize: a copy of each called function for each way in which its calls bind its sizes (IR/CallSizes.h).
//
// After it caller and callee speak of the same sizes, which every pass but inline relies on. inline runs it first; by itself it
// shows the copies, and keeps the calls.
#include "dtc/Passes/Pass.h"

namespace dtc {

// Does some call bind a size of its callee to anything but the caller's size of that name?
[[nodiscard]] bool bindsSizes(Module&);
// Functions that were called and are called no longer are removed, but for those in `keep`. False with diagnostics where a
// copy is not a valid function: a strided sharding that does not divide, a size that does not fit a literal's dtype.
[[nodiscard]] bool specialize(Module&, Diagnostics&, std::span<const FuncId> keep = {});

[[nodiscard]] bool specializePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo specializeInfo();

} // namespace dtc
