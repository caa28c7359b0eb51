#pragma once
// How each op runs once the sharding variables are solved: how its factors are cut, and which values stay pending.
#include "PropagationState.h"

namespace dtc {

// One op's factors as it runs, and what follows for its operands and results.
struct OpForm {
  std::vector<PartList> factors;                           // of the relation's rule
  std::vector<std::vector<DimSharding>> operands, results; // dims each operand must have, each result gets
  std::vector<PendingAxis> reduced; // axes of cut reduce factors: pending on the results
  std::vector<PendingAxis> passed;  // pending that goes through, if the minimum cut says so …
  std::vector<bool> takesPending;   // … in these operands (made pending where they are not)
  std::vector<bool> joins;          // operands that must be pending on `reduced` (bias of linear)
};

// Chooses the factors' cuts: what all tensors agree on; where they differ, the combination that moves the fewest bytes.
// With `freeResults` a result that is still open costs nothing, however it comes out: what is tied goes by price.
[[nodiscard]] OpForm chooseForm(const PropagationState&, const Relation&, bool freeResults = false);

// Decides for all ops' forms which results stay pending; clears `passed` of those that do not.
// `keepPending[v]`: value v is pending (source or passed) and at least one user takes it so;
// `needsReduced[v]`: at least one use needs it reduced.
struct PendingDecision {
  std::vector<bool> keepPending, needsReduced; // by value
};
[[nodiscard]] PendingDecision decidePending(PropagationState&, std::vector<OpForm>& forms);

[[nodiscard]] int64_t globalBytes(const Module&, ValueId); // a symbolic size counts as 128

} // namespace dtc
