#pragma once
// dtc help NAME: the page of an op, a pass, or a kind of diagnostic.
#include "Environment.h"

namespace dtc {

// Also the lists: "ops", "passes", "kinds". A name that nothing has is an error with the nearest one.
[[nodiscard]] int helpOn(Environment&, const std::string& name);

} // namespace dtc
