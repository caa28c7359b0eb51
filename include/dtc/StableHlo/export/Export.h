#pragma once
// Export of dtc modules as StableHLO text with the func, chlo, check and Shardy dialects.
#include "dtc/IR/OpRecord.h"
#include <optional>
#include <string>

namespace dtc {

// The module as StableHLO and Shardy text. Global functions keep their shardings as annotations; an `spmd`
// function, or a `local` region, becomes an `sdy.manual_computation` that contains StableHLO's collectives.
// value_and_grad is differentiated first, and ops that StableHLO lacks are written as the basic ops that
// define them. Anything that StableHLO cannot express (a symbolic size, shards of different sizes, `print`)
// is reported to `diags`, all of it, and the result is empty. `entry`, where valid, is written as @main, the
// function that JAX and XLA look for; another function of that name gets a numeric suffix.
[[nodiscard]] std::string exportStablehlo(Module m, Diagnostics& diags, FuncId entry = {});

// `<@mesh, [{"dp"}, {?}]>`. Nothing where Shardy cannot express it.
[[nodiscard]] std::optional<std::string> shardySharding(const Module&, ShardingId);

} // namespace dtc
