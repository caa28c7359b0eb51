#pragma once
// Random values for the arguments of a function, on which it can be evaluated.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

// Global values: floats from a range around 0, integers 0 … 7. Where the function is undefined there (an
// index out of range, the log of a negative number), positive floats and smaller integers are tried. Error:
// Input, with the reason of the last attempt, or where the inputs are too large to be evaluated.
[[nodiscard]] Result<std::vector<Tensor>> randomArguments(Module&, FuncId);

} // namespace dtc
