#pragma once
// split-complex: replaces every complex value by two real ones, its real and its imaginary plane.
//
// The op's record defines the replacement (OpRecord::complex). Arguments and results of the entry function
// stay complex in memory, accessed by `real`, `imag` and `complex`, and so do the operands of `print` and of
// checks. Called functions take planes.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool splitComplexPass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
