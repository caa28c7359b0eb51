#pragma once
// The text of a pass: its section of docs/passes.md, which is part of the binary.
#include "dtc/Passes/Pass.h"

namespace dtc {

// Fills in what the row of a pass does not say. A section has a summary, the reasons for the pass's position,
// its levels, its options and its examples; it is a bug if levels or options differ from those of the row.
void readPassPage(PassInfo&);

// The help page of a pass for a terminal.
[[nodiscard]] std::string passText(const PassInfo&);

} // namespace dtc
