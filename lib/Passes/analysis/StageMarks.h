#pragma once
// The marks of the stages of a pipeline.
#include "dtc/Passes/analysis/ValuePrograms.h"

#include <optional>

namespace dtc {

// The `stage` of an op, or the one that all marks in its blocks have; nothing without a mark. -1: several.
[[nodiscard]] std::optional<int64_t> stageMarkOf(const Module&, OpId);

} // namespace dtc
