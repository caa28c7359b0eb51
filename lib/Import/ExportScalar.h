#pragma once
// Scalar expressions (Ops/Scalar.h) as StableHLO ops on whole tensors. Private to lib/Import.
#include "ExportWriter.h"
#include "dtc/Ops/Scalar.h"

namespace dtc {

// The expression over `operands`, all of the shape `shape` (a rank-0 one is broadcast), and `acc`. Nothing where an
// intrinsic has no form in StableHLO; `missing` then names it. Narrow floats are computed in f32 and rounded once, where
// more than one step is taken, as the expression's definition asks.
[[nodiscard]] std::optional<ExportValue> exportScalar(ExportWriter&, const ScalarExpr&,
                                                      std::span<const ExportValue> operands,
                                                      const ExportValue* acc, const Dims& shape,
                                                      std::string& missing);

// One intrinsic on values of one shape; its result is of `result`'s dtype (casts), else as the intrinsic says. Nothing where it
// has no form.
[[nodiscard]] std::optional<ExportValue> exportIntrinsic(ExportWriter&, std::string_view name,
                                                         std::span<const ExportValue> args, DType result);

// Why an op cannot be written that needs this function.
[[nodiscard]] inline std::string noFunction(std::string_view name) {
  return "it has no function '" + std::string(name) + "', and dtc has no decomposition of it";
}

} // namespace dtc
