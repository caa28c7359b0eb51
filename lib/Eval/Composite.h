#pragma once
// Ops that are defined by their decomposition.
#include "dtc/Eval/Eval.h"
#include "dtc/IR/OpRecord.h"

namespace dtc {

// As evaluateLoops, with static types: the decomposition in a module of its own.
[[nodiscard]] Result<std::vector<Tensor>> evaluateComposite(const OpQuery&,
                                                            std::span<const Tensor* const> operands,
                                                            std::span<const TypeId> resultTypes, Precision);

} // namespace dtc
