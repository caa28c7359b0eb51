#pragma once
// Gradients of ops with blocks. Private to lib/Passes.
#include "GradientSweep.h"

namespace dtc {

// Appends to the sweep the backward form of `op`, an op with blocks whose results have these cotangents (invalid: zero), and
// accumulates the cotangents of what it reads. `op` becomes the op that stands in its place: the same, giving also what the
// backward pass reads. False, with a diagnostic, where it has no gradient.
[[nodiscard]] bool regionGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);

// One function each, for the kinds of blocks.
[[nodiscard]] bool loopGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool condGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool recomputeGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool localGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);

// `op` with further operands and results; its blocks are handed over, and its results are those of the new op.
[[nodiscard]] OpId extended(Differentiation&, OpId op, std::span<const ValueId> operands,
                            std::span<const TypeId> furtherResults);
// The type of `rows` values of this type, along a new dim 0.
[[nodiscard]] TypeId stackedType(Module&, TypeId, Dim rows);

} // namespace dtc
