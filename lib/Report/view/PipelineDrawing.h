#pragma once
// The diagram of a pipeline as a part of a drawing.
#include "dtc/Passes/analysis/PipelineText.h"
#include "view/Svg.h"

namespace dtc {

// Returns the lower end.
[[nodiscard]] size_t drawPipeline(Svg&, const PipelineRun&, size_t top);

} // namespace dtc
