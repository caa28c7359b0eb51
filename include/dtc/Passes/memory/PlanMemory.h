#pragma once
// plan-memory: assigns an offset in the device's arena to every buffer of a scheduled function.
//
// Needs scheduled text; runs last, because every reordering invalidates the plan. Writes `at = [offset, …]`
// on ops, arguments and results and `arena = N` on the function: byte offsets, equal on all devices, with
// every buffer sized for its largest shard. With {results = apart} the buffers of results have memory of their own. A `for` has one more offset, its index's, after those of its
// results. With {reuse = false} every value keeps a buffer of its own to the end.
//
// A value is live from the op that writes it to its last reader; an outer value used in a loop is live to the
// loop's end. Arguments keep their buffers, unless they have {donate = true} or a result of the same name has
// {carry = true}; results are live to the end; the result of an op without operands is computed once, when
// the program is loaded, and is always live.
//
// Values share one buffer if that is safe: a region of kind "view" and its operand; a carried value's
// arguments and results; an elementwise result and an operand that dies at it, in place; and, if their live
// ranges permit, a loop's start or yield and the carried value, the yields of the branches of a `cond` and
// its result, a carried result and its argument. Otherwise a copy is made.
//
// The lower bound is the max live bytes at one position, each buffer counted once. Offsets are assigned by
// several quick sweeps over time (best fit, long-lived buffers from the bottom, short-lived ones from the
// top); if none reaches the bound and the program is small enough, by a search over orders (largest first,
// then buffers that did not fit move to the front).
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/MemoryPlan.h"

namespace dtc {

[[nodiscard]] bool planMemory(Module& m, const PassOptions& options, Diagnostics& diags);

// readMemoryPlan() of all functions with a plan and bound sizes.
[[nodiscard]] bool checkMemoryPlans(const Module& m, Diagnostics& diags);

// Assigns every value of the module a buffer of its own to the end, so that a check can inspect all of them
// afterwards.
[[nodiscard]] bool planWithoutReuse(Module& m, Diagnostics& diags);

// Nothing, with diagnostics, if a size is not bound or the total size of the buffers exceeds 2^61-1 bytes.
// Without `reuse` every value keeps a buffer of its own to the end, so that a check can inspect all of them
// afterwards. With `resultsApart` no other value uses the memory of a result, so that a run can write it elsewhere.
[[nodiscard]] std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags,
                                                       bool reuse = true, bool resultsApart = false);

// The plan in the text: `at` of every value and `arena`. Nothing, with diagnostics, if one is missing, two
// values that are live at the same time overlap, or an offset is outside the arena. Used by the runtime.
[[nodiscard]] std::optional<MemoryPlan> readMemoryPlan(const Module& m, FuncId f, Diagnostics& diags);

} // namespace dtc
