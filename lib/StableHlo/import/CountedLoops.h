#pragma once
// Counted loops: `while (i < limit) { …; i += step }` as `for`.
#include "dtc/IR/Module.h"

namespace dtc {

// StableHLO has one loop, `while`; JAX's scan and fori_loop become counted ones. Such a loop becomes a `for`:
// - the condition compares one carried integer with a constant (any start and step), or an i32 that counts up
// by one with a loop-invariant value;
// - loop-invariant carried values are captured, and further integers that change by a constant step are
// computed from the index;
// - a carried tensor whose rows are all written, one per iteration, forwards or backwards, is stacked;
// - a slice of one row at an index that is in bounds becomes an `index_select`.
//
// Where the condition is a conjunction (`i < limit and …`), the loop stays a `while` with {max_trips = N}.
// Small functions that slice by the counter are inlined in such loops, and unused ops are removed afterwards.
void countLoops(Module&, Diagnostics&);

} // namespace dtc
