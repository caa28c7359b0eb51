#pragma once
// Canonical forms of shardings and of shard sizes: equivalent ones have the same representation, so that
// other code compares by equality.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// Whether the axis or sub-axis has one device. Canonical forms omit such axes: a value is equal and not
// pending along them.
[[nodiscard]] bool isUnit(const AxisRef&, const Mesh&);

// The canonicalization of ShardingTable::intern: sorts pending and replicated axes in mesh order, joins
// consecutive sub-axes, and drops axes of size 1.
void canonicalize(Sharding&, const Mesh&);
void canonicalizePending(std::vector<PendingAxis>&, const Mesh&);

// Divides out the axes that shard evenly, major first: 10/(a, b) with a=2 is 5/b, 6/a with a=4 is 3/a:(2)2.
// The size on every device is unchanged. Used for dims that are sharded further or gathered.
void divideOut(DimExpr&, const Mesh&);
// The canonical form of a local dim (as returned by localDim), so that shards of equal sizes are equal dims:
// even axes are divided out, then a sub-axis that is left in front is written with the major part of its
// axis: 10/(a, b) with a=2 is 5/b, both 6/a and 3/a:(2)2 with a=4 are 6/a.
[[nodiscard]] Dim canonicalShard(DimExpr, const Mesh&, DimTable&);

// Removes an axis from the end of a list of axes; if the last axis is longer, its major part remains. False
// if the list ends in another axis.
[[nodiscard]] bool takeMinor(std::vector<AxisRef>& list, const AxisRef&, const Mesh&);

} // namespace dtc
