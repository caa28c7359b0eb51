#pragma once
// A pass's page, for a terminal; docs/passes.md is passesMarkdown() (Pass.h).
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] std::string passText(const PassInfo&);

} // namespace dtc
