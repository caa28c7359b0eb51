#pragma once
// The gradient of one op, from its record.
#include "dtc/IR/build/Builder.h"

namespace dtc {

// Appends ops that compute the cotangents of `op`'s operands from those of its results (an invalid id: zero).
// One entry per operand, with the operand's type; invalid if the gradient is zero, undefined, or not `wanted`
// (one flag per operand). False, with a diagnostic, if the op has no gradient.
[[nodiscard]] bool opGradient(Builder&, OpId op, std::span<const ValueId> resultCotangents,
                              const std::vector<char>& wanted, std::vector<ValueId>& operandCotangents);

} // namespace dtc
