#pragma once
// The gradient of one op, from its record. Private to lib/Passes.
#include "dtc/IR/Builder.h"

namespace dtc {

// Appends what computes the cotangents of `op`'s operands from those of its results (an invalid id: zero). One entry per
// operand, invalid where the gradient is zero or there is none; each has its operand's type. False, with a diagnostic, where
// the op has no gradient.
[[nodiscard]] bool opGradient(Builder&, OpId op, std::span<const ValueId> resultCotangents,
                              std::vector<ValueId>& operandCotangents);

} // namespace dtc
