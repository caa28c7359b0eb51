#pragma once
// The graph of a program as drawings: one of the whole, in which layers and regions are single nodes, and one of
// the inside of each.
#include "report/GlobalData.h"

namespace dtc {

// `files`: of SourceIndex; the ops of an imported file are one node. `folded`: a layer that equals an earlier one is
// drawn as that one.
[[nodiscard]] ReportValue graphData(const ReportGraph&, const SourceLayers&,
                                    const std::vector<ReportValue>& values, const ReportValue& collectives,
                                    const ReportValue& files, bool folded);

} // namespace dtc
