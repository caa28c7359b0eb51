#pragma once
// What settles conflicts of shardings, other than Shardy's order (sharding.md, "How shardings are found").
#include "OpForms.h"

namespace dtc {

// dtensor: op by op, forward only. Each op runs in the form that moves the fewest bytes of its operands; what it gives is what
// its result has. All annotated dims have been revealed.
void solveForward(PropagationState&);

// cost: where an op's tensors cannot all stay as they are, the forms that it and its neighbours could have are tried, and
// the one of the least whole price (transfers, memory, computation on the nominal machine) stays. One walk; the work per
// conflict is bounded.
void improveByPrice(PropagationState&, const NominalMachine&);

// explicit: an error for each op, and each boundary that no one wrote, where something would have to move that no annotation
// asks for. True where there is none.
[[nodiscard]] bool reportConflicts(PropagationState&);

// Adds to the report how this op could have run, where it could not run on its tensors as they are.
void recordDecision(PropagationState&, const Relation&, const PricedForm& taken);

} // namespace dtc
