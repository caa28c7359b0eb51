#pragma once
// How often a `while` runs. Private to lib/Import.
#include "IndexRanges.h"

namespace dtc {

// The carried integer that a loop's condition looks at, and how often the loop runs.
struct LoopCount {
  size_t counter = 0;           // of what is carried
  std::optional<int64_t> trips; // known; else the counter runs from its start by one to `limit`, an i32
  ValueId limit;                // not changed by the loop
  bool onlyBound = false;       // the condition has other terms: `trips` is an upper bound
};

// The constant that each iteration adds to the carried integer k of a `while`. `body` is the loop's second block.
[[nodiscard]] std::optional<int64_t> stepOf(const Module&, const IndexRanges&, OpId loop, size_t k);

// Nothing where the loop does not count so.
[[nodiscard]] std::optional<LoopCount> countOf(const Module&, const IndexRanges&, OpId loop);

} // namespace dtc
