#pragma once
// Ops on complex tensors, as defined by OpRecord::complex: plane by plane, or natively by element.
#include "EvaluateRule.h"

namespace dtc {

// Whether the op supports complex numbers by other means than its own `eval`.
[[nodiscard]] bool isComplexOp(const OpQuery&, std::span<const TypeId> resultTypes);
// The record's own evaluation for these dtypes, or null.
[[nodiscard]] decltype(OpRecord::eval) evalOf(const OpQuery&, std::span<const TypeId> resultTypes);
// As evaluateLoops. `results` are zeros of their shapes in the stored dtypes.
[[nodiscard]] Result<std::vector<Tensor>> evaluateComplex(const OpQuery&,
                                                          std::span<const Tensor* const> operands,
                                                          std::span<const TypeId> resultTypes, const Env&,
                                                          Precision, std::vector<Tensor> results);

} // namespace dtc
