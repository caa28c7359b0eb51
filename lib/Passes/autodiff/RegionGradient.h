#pragma once
// Gradients of ops with blocks.
#include "autodiff/GradientSweep.h"

namespace dtc {

// Appends the backward form of `op`, an op with blocks whose results have these cotangents (invalid: zero),
// to the sweep, and accumulates the cotangents of its operands and outer values. `op` becomes its
// replacement, which also returns the residuals. False, with a diagnostic, if it has no gradient.
[[nodiscard]] bool regionGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);

// One function per kind of region.
[[nodiscard]] bool loopGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool condGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool recomputeGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);
[[nodiscard]] bool localGradient(GradientSweep&, OpId& op, std::span<const ValueId> results);

// `op` with additional operands and results; its blocks move to the new op, and its results become those of
// the new op.
[[nodiscard]] OpId extended(Differentiation&, OpId op, std::span<const ValueId> operands,
                            std::span<const TypeId> furtherResults);
// The type of `rows` stacked values of this type, along a new dim 0.
[[nodiscard]] TypeId stackedType(Module&, TypeId, Dim rows);

} // namespace dtc
