#pragma once
// fix-reduction-order: sums of floats come out with the same bits on every mesh (`--reduction-order fixed`).
//
// A sum of floats depends on the order in which it is made, and that on where its dims are cut: between devices, and within
// a kernel, whose loops are chosen by the sizes that the device has. So every op that combines floats in an order of its own
// (a sum, a product, a contraction, a norm, a scan) gets its operands and results whole: it does the same on every device of
// every mesh. What only moves or maps elements, and what is exact in every order (max, min, any, all, integers), stays cut.
// Runs before propagate, which finds the rest; each op is then a kernel of its own (fuse{limit=1}), as a kernel of several
// would depend on how its other ops are cut.
#include "dtc/Passes/Pass.h"

namespace dtc {

[[nodiscard]] bool fixReductionOrderPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo fixReductionOrderInfo();

} // namespace dtc
