#pragma once
// The one form of shardings and of pieces: what says the same is written the same, so that everything else compares by equality.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// Has the axis or sub-axis one device? Along it all is equal and nothing is pending: no canonical form holds one.
[[nodiscard]] bool isUnit(const AxisRef&, const Mesh&);

// What ShardingTable::intern makes of a sharding: pending and replicated axes sorted in mesh order, sub-axes that continue each other
// joined, axes of size 1 left out.
void canonicalize(Sharding&, const Mesh&);
void canonicalizePending(std::vector<PendingAxis>&, const Mesh&);

// Divides out what cuts evenly, major first: 10/(a, b) with a=2 is 5/b, 6/a with a=4 is 3/a:(2)2. Every device's size stays what it is.
// What a piece is cut further from, or gathered to.
void divideOut(DimExpr&, const Mesh&);
// The one form of a piece (localDim gives it), so that pieces of equal sizes are equal dims however they were made: divided out, then a
// sub-axis that is left in front is written with the major part of its axis: 10/(a, b) with a=2 is 5/b, both 6/a and 3/a:(2)2 with
// a=4 are 6/a.
[[nodiscard]] Dim canonicalPiece(DimExpr, const Mesh&, DimTable&);

// Takes an axis off the end of a list of axes; of a longer axis there the major part stays. False where the list ends otherwise.
[[nodiscard]] bool takeMinor(std::vector<AxisRef>& list, const AxisRef&, const Mesh&);

} // namespace dtc
