#pragma once
// The location of an op in the user's original program, if the text was imported from another compiler (ir.md,
// `name` and `loc`). Reports show it before the location in the .dt text.
#include "dtc/IR/Module.h"

namespace dtc {

// "model.py:12:9 (jit(step)/mul)", "model.py:12:9" or "jit(step)/mul"; for an op with regions, the first
// location found inside. "" if there is none.
[[nodiscard]] std::string userLocation(const Module&, OpId);

} // namespace dtc
