#pragma once
// Policies for sharding conflicts other than Shardy's order (sharding.md, "How shardings are found").
#include "propagate/OpForms.h"

namespace dtc {

// dtensor: op by op, forward only. Each op runs in the form that moves the fewest bytes of its operands, and
// its result takes the sharding of that form. All annotated dims have been revealed.
void solveForward(PropagationState&);

// cost: if an op's tensors cannot all keep their shardings, the forms of the op and its neighbors are
// enumerated, and the one with the lowest total price (transfers, memory, computation on the nominal machine)
// is taken. One walk; the work per conflict is bounded.
void improveByPrice(PropagationState&, const NominalMachine&);

// explicit: an error for each op, and each unannotated boundary, that would need data movement which no
// annotation requests. True if there is none.
[[nodiscard]] bool reportConflicts(PropagationState&);

// Adds to the report the possible forms of this op, if it could not run on its tensors as sharded.
void recordDecision(PropagationState&, const Relation&, const PricedForm& taken, const FormPricing&);

} // namespace dtc
