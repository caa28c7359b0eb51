#pragma once
// split-complex: rewrites every complex value into two real ones, its real and its imaginary plane.
//
// An op's record says how (OpRecord::complex). What remains of complex numbers is the memory of arguments and results, which
// `real`, `imag` and `complex` read and write, and what `print` and the checks are given. Functions that are called take planes.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool splitComplexPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo splitComplexInfo();

} // namespace dtc
