#pragma once
// Scalar expressions (Ops/Scalar.h) as StableHLO ops on whole tensors.
#include "dtc/Ops/record/Scalar.h"
#include "export/ExportWriter.h"

namespace dtc {

// The expression over `operands`, all of the shape `shape` (a rank-0 one is broadcast), and `acc`. Nothing
// where an intrinsic has no StableHLO form; `missing` then names it. Narrow floats are computed in f32 and
// rounded once if there is more than one step, as the expression's definition requires.
[[nodiscard]] std::optional<ExportValue> exportScalar(ExportWriter&, const ScalarExpr&,
                                                      std::span<const ExportValue> operands,
                                                      const ExportValue* acc, const Dims& shape,
                                                      std::string& missing);

// One intrinsic on values of one shape; its result has the dtype of `result` (casts), else the intrinsic's
// own. Nothing where it has no StableHLO form.
[[nodiscard]] std::optional<ExportValue> exportIntrinsic(ExportWriter&, std::string_view name,
                                                         std::span<const ExportValue> args, DType result);

// The reason why an op that needs this function cannot be written.
[[nodiscard]] inline std::string noFunction(std::string_view name) {
  return "StableHLO has no function '" + std::string(name) + "', and dtc has no decomposition of it";
}

} // namespace dtc
