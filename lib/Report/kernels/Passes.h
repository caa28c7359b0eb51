#pragma once
#include "dtc/Report/kernels/KernelReport.h"
#include "kernels/Uses.h"

namespace dtc {
// The values that pass through memory more often than they must, equal ones in one row.
[[nodiscard]] std::vector<PassesRow> passesOf(const Module&, FuncId entry, const ProgramUses&);
} // namespace dtc
