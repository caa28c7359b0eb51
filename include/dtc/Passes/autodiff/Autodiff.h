#pragma once
// autodiff: replaces every `value_and_grad @f(…)` by the body of @f followed by the gradients of its ops, in
// reverse order.
//
// Reverse mode (Griewank and Walther, Evaluating Derivatives, 2008, ch. 3). The gradient of an op comes from
// its record: IR text, code, or derived from the index rule (contractions). Runs before propagation, so that
// backward ops get their shardings, and their communication, from the same rules as all others.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool autodiffPass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
