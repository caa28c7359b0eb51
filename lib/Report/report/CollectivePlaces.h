#pragma once
// The one box or edge of the graph that each collective is drawn at.
#include "report/GlobalData.h"

namespace dtc {

// Of the boxes and edges that need a collective, one keeps it: the box that defines the value, if all edges
// start there, and otherwise the first in the program's order. One that nothing needs is at
// `elsewhere[collective]`, a box.
void placeCollectives(ReportGraph&, const std::vector<int>& elsewhere);

} // namespace dtc
