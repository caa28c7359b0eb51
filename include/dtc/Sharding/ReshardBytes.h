#pragma once
// A closed-form estimate of the cost of a reshard, used by propagation, for which planning each alternative
// (Reshard.h) would be too slow.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// Estimated bytes received by each device when a tensor of `bytes` global bytes is resharded from `from` to
// `to` on one mesh: 2(n-1)/n of the local bytes for an all_reduce over n, (n-1)/n for a reduce_scatter, the
// missing bytes for a change of shard axes; 0 for a slice, or for making a replicated value pending.
[[nodiscard]] int64_t estimateReshardBytes(const Sharding& from, const Sharding& to, const Mesh&,
                                           int64_t bytes);

} // namespace dtc
