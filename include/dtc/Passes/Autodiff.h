#pragma once
// autodiff: replaces every `value_and_grad @f(…)` by the body of @f and, in reverse, the gradients of its ops.
//
// Reverse mode (Griewank and Walther, Evaluating Derivatives, 2008, ch. 3). An op's gradient is its record's: written as IR
// text, built by code, or derived from the index rule (contractions). Runs before propagation, so that the backward ops get
// their shardings, and their communication, from the same rules as all others.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool autodiffPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo autodiffInfo();

} // namespace dtc
