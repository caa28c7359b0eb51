#pragma once
// Loop IR -> C++ for the in-process Clang: explicit vectors, units over the grid axes (private to lib/Kernel).
#include "Emit.h"

namespace dtc {

// The body of the C++ form (Kernel.h). `vectorBytes` is the width of a register.
[[nodiscard]] PrintedKernel printCpp(const loops::Kernel&, int vectorBytes);

} // namespace dtc
