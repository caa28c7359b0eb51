#pragma once
#include "propagate/OpForms.h"

namespace dtc {

// Writes every value's sharding, and a `reshard` before each use (or after each result) that needs a
// different one.
void insertReshards(PropagationState&, const std::vector<OpForm>& forms, const PendingDecision&);

} // namespace dtc
