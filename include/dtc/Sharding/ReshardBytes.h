#pragma once
// A closed-form estimate of what a reshard costs: what propagation chooses by, where planning each alternative
// (Reshard.h) would be too slow.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// Estimated bytes that each device receives when a tensor of `bytes` global bytes goes from `from` to `to` on one mesh:
// 2(n-1)/n of the local bytes for an all_reduce over n, (n-1)/n for a reduce_scatter, what is not held already for a change
// of cuts; 0 for a slice or for making a replicated value pending.
[[nodiscard]] int64_t estimateReshardBytes(const Sharding& from, const Sharding& to, const Mesh&,
                                           int64_t bytes);

} // namespace dtc
