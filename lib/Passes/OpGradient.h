#pragma once
// The gradient of one op, from its record. Private to lib/Passes.
#include "dtc/IR/Builder.h"

namespace dtc {

// Appends what computes the cotangents of `op`'s operands from those of its results (an invalid id: zero). One entry per
// operand, invalid where the gradient is zero, there is none, or `wanted` (one per operand) says that nobody asks; each has
// its operand's type. False, with a diagnostic, where the op has no gradient.
[[nodiscard]] bool opGradient(Builder&, OpId op, std::span<const ValueId> resultCotangents,
                              const std::vector<char>& wanted, std::vector<ValueId>& operandCotangents);

} // namespace dtc
