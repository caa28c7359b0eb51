#pragma once
// Ops on complex tensors, as OpRecord::complex defines them: the planes by themselves, or the elements natively.
#include "Loops.h"

namespace dtc {

// Does the op work on complex numbers, in another way than by its own `eval`?
[[nodiscard]] bool isComplexOp(const OpQuery&, std::span<const TypeId> resultTypes);
// The record's own evaluation for these dtypes, or null.
[[nodiscard]] decltype(OpRecord::eval) evalOf(const OpQuery&, std::span<const TypeId> resultTypes);
// As evaluateLoops. `results` come as zeros of their shapes in the dtypes that they are held in.
[[nodiscard]] Result<std::vector<Tensor>> evaluateComplex(const OpQuery&,
                                                          std::span<const Tensor* const> operands,
                                                          std::span<const TypeId> resultTypes, const Env&,
                                                          Precision, std::vector<Tensor> results);

} // namespace dtc
