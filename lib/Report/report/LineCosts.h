#pragma once
// The work of each line on one device, in one run.
#include "dtc/Passes/trace/TraceCollectives.h"
#include "report/SourceIndex.h"

namespace dtc {

void addLineCosts(CollectiveTrace&, const SourceIndex&, std::vector<LineFacts>&);

} // namespace dtc
