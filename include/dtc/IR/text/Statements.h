#pragma once
// How traces name the ops of a function: by their number in its text, and by their results.
#include "dtc/IR/text/Naming.h"

namespace dtc {

// The ops of a function in the order of its text, with those of regions, except for the inside of fused regions.
[[nodiscard]] std::vector<OpId> statementsOf(const Module&, FuncId);
// "%a, %b = fused"; "print" without results. `names`: of its function.
[[nodiscard]] std::string statementText(const Module&, OpId, const Naming& names);

} // namespace dtc
