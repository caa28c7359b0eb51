#pragma once
// The diagram of a pipeline, and the streams of programs over time, as parts of a drawing.
#include "dtc/Report/view/View.h"
#include "view/Svg.h"

namespace dtc {

// The axis of times from 0 to `seconds`, with round numbers, from `left` to `right`; its labels are 20 below.
void drawTimeAxis(Svg&, double seconds, size_t left, size_t right, size_t y);
// Both return the lower end.
[[nodiscard]] size_t drawPipeline(Svg&, const PipelineRun&, size_t top);
[[nodiscard]] size_t drawTimelines(Svg&, const ViewTimelines&, size_t top);

} // namespace dtc
