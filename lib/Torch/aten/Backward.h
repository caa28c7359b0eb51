#pragma once
// Gradients by autodiff, for the backward ops of PyTorch that dtc has no op for.
#include "dtc/Import/rows/Context.h"

namespace dtc::aten {

// Whether a backward op's result is wanted: it is used, and output_mask does not leave it out.
[[nodiscard]] bool wants(const ImportContext&, size_t i);

namespace backwards {

// The gradients of the sum of f(operands) * dy with respect to the operands `wrt`. `f` appends to the Builder
// that it gets; operands that it reads must be among `operands`.
using Differentiable = std::function<Expr(Builder&, std::span<const Expr>)>;
[[nodiscard]] std::vector<Expr> gradients(Builder&, const std::vector<Expr>& operands,
                                          const std::vector<int64_t>& wrt, Expr dy, const Differentiable& f);

} // namespace backwards
} // namespace dtc::aten
