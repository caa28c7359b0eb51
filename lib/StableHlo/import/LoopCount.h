#pragma once
// The iteration count of a `while`.
#include "import/IndexRanges.h"

namespace dtc {

// The carried integer in a loop's condition, and the number of iterations.
struct LoopCount {
  size_t counter = 0;                // index among the carried values
  std::optional<int64_t> iterations; // known; else the counter runs from its start by one to `limit`, an i32
  ValueId limit;                     // loop-invariant
  bool onlyBound = false;            // the condition has other terms: `iterations` is an upper bound
};

// The constant that each iteration adds to the carried integer k of a `while`. `body` is the loop's second
// block.
[[nodiscard]] std::optional<int64_t> stepOf(const Module&, const IndexRanges&, OpId loop, size_t k);

// Nothing where the loop is not counted.
[[nodiscard]] std::optional<LoopCount> countOf(const Module&, const IndexRanges&, OpId loop);

} // namespace dtc
