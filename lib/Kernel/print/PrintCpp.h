#pragma once
// Prints loop IR as C++ for the in-process Clang: explicit vectors, units over the grid axes.
#include "print/Text.h"

namespace dtc {

// The body of the C++ form (Kernel.h). `vectorBytes` is the width of a register.
struct CpuSchedule {
  bool prefetch = true; // the next row, during a pass over the current one
  // Outputs of at least this many bytes bypass the caches: they would be evicted before their users read
  // them.
  int64_t streamBytes = int64_t(16) << 20;
};
[[nodiscard]] PrintedKernel printCpp(const loops::Kernel&, int vectorBytes, const CpuSchedule& = {});

} // namespace dtc
