#pragma once
// dtc help NAME: prints the page of an op, a pass or a diagnostic kind.
#include "Environment.h"

namespace dtc {

// Also prints the lists "ops", "passes" and "kinds". Error (Usage): unknown name, with the nearest one.
[[nodiscard]] int helpOn(Environment&, const std::string& name);

} // namespace dtc
