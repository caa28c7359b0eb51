#pragma once
// The diagram of a pipeline, and the streams of programs over time, as parts of a drawing.
#include "dtc/Report/view/View.h"
#include "view/Svg.h"

namespace dtc {

// Both return the lower end.
[[nodiscard]] size_t drawPipeline(Svg&, const PipelineRun&, size_t top);
[[nodiscard]] size_t drawTimelines(Svg&, const ViewTimelines&, size_t top);

} // namespace dtc
