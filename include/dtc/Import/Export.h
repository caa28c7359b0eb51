#pragma once
// Our programs as other compilers read them: StableHLO text with the func, chlo, check and Shardy dialects.
#include "dtc/IR/OpRecord.h"
#include <string>

namespace dtc {

// The module as StableHLO and Shardy text. Global functions keep their shardings as annotations; an `spmd` function, and a
// `local` region, becomes an `sdy.manual_computation` with StableHLO's collectives in it. value_and_grad is differentiated
// first, and ops that StableHLO lacks are written as the basic ops that they are defined by; what it cannot say at all
// (a symbolic size, pieces of different sizes, `print`) is reported to `diags`, as many as there are, and the result is empty.
// `entry`, where valid, is written as @main, the function that JAX and XLA look for; another function of that name gets a
// number behind it.
[[nodiscard]] std::string exportStablehlo(Module m, Diagnostics& diags, FuncId entry = {});

} // namespace dtc
