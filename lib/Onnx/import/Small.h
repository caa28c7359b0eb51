#pragma once
// Values of element types that dtc holds in wider ones (OnnxTypes.h).
#include "import/OnnxContext.h"

namespace dtc::onnx {

// Rounds a f32 value to the nearest value of a narrow float type, ties to even. Overflow: the largest value if
// `saturate`, else NaN (types without one: the largest). `up`: float8e8m0 rounds up.
[[nodiscard]] Expr roundedTo(Expr x, const ElementInfo&, bool saturate, std::string_view mode = "nearest");
// The lowest bits of an integer, sign-extended for signed types.
[[nodiscard]] Expr wrappedTo(Expr x, const ElementInfo&);
// x in another element type, as ONNX's Cast.
[[nodiscard]] Expr castTo(OnnxContext&, Expr x, int32_t from, int32_t to, bool saturate = true,
                          std::string_view mode = "up");

} // namespace dtc::onnx
