#pragma once
// Loop IR -> C++ for the in-process Clang: explicit vectors, units over the grid axes (private to lib/Kernel).
#include "Emit.h"

namespace dtc {

// The body of the C++ form (Kernel.h). `vectorBytes` is the width of a register.
struct CpuSchedule {
  bool prefetch = true; // the next row, during a pass over the present one
  // Outputs of at least so many bytes go past the caches: nothing of them would be left there for who reads them.
  int64_t streamBytes = int64_t(16) << 20;
};
[[nodiscard]] PrintedKernel printCpp(const loops::Kernel&, int vectorBytes, const CpuSchedule& = {});

} // namespace dtc
