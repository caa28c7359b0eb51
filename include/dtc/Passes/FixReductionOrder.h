#pragma once
// fix-reduction-order: sums of floats come out with the same bits on every mesh (`--reduction-order fixed`).
//
// A sum of floats depends on the order in which it is made, and that on where its dims are cut: between devices, and within
// a kernel, whose loops are chosen by the sizes that the device has. The second is fuse's business (order=fixed: each element's
// sum is made in order, by one lane). For the first, sums and contractions are made in chunks, whose number the shape alone
// decides: partial results of chunks, which only devices with whole chunks share, then a tree over chunk numbers
// (ReductionChunks.h). Other ops that combine floats are whole along the dims that they combine, and those that do not do the
// same for each element of the others (scans, attention) along all. What only moves or maps elements, and what is exact in
// every order (max, min, any, all, integers), stays cut. Runs before propagate, which finds the rest; each op is then a kernel
// of its own (fuse{limit=1}), as products and sums of one kernel may be rounded together.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool fixReductionOrderPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo fixReductionOrderInfo();

} // namespace dtc
