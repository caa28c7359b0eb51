#pragma once
// Which loops are a matrix product that a library takes (private to lib/Kernel).
#include "Lower.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// The kernel as one library call: a single store of a sum of products of two plain loads, with or without a bias along n.
// Works on the loops, so that matmul, linear and einsum, with the transposes and reshapes around them, are one case.
[[nodiscard]] std::optional<GemmCall> matchGemm(const Lowered&, uint32_t dtypes);

// The kernel as another view of its only input.
[[nodiscard]] std::optional<ViewCall> matchView(const Lowered&);

} // namespace dtc
