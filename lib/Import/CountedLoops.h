#pragma once
// Loops that count: `while (i < limit) { …; i += step }` as `for`. Private to lib/Import.
#include "dtc/IR/Module.h"

namespace dtc {

// StableHLO has one loop, `while`; what JAX's scan and fori_loop become counts. Such a loop becomes a `for`:
// - its condition compares one carried integer with a number (any start and step), or an i32 that goes up by one with a value
//   that the loop does not change;
// - what the loop carries unchanged is used from outside of it, and further integers that go up by a constant are computed
//   from the index;
// - a carried tensor whose rows the trips write one after the other, all of them, forwards or backwards, is stacked;
// - a slice of one row at an index that cannot leave the tensor is an `index_select`.
// Where the condition is a conjunction (`i < limit and …`), the loop stays a `while` with {max_trips = N}. Small functions
// that slice by the counter are inlined in such loops, and what nobody reads afterwards is removed.
void countLoops(Module&, Diagnostics&);

} // namespace dtc
