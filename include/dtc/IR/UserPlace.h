#pragma once
// What the user's own program calls an op, where the text came from another compiler and says so (ir.md §2.6, `name` and
// `loc`): reports show this before the place in the text that dtc read.
#include "dtc/IR/Module.h"

namespace dtc {

// "model.py:12:9 (jit(step)/mul)", "model.py:12:9" or "jit(step)/mul"; of a region's op what the first op inside says that
// says anything. "" where nothing is said.
[[nodiscard]] std::string userPlace(const Module&, OpId);

} // namespace dtc
