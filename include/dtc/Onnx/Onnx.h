#pragma once
// Import of ONNX models: opset 13 and later (docs/from-onnx.md).
#include "dtc/Import/program/Format.h"

namespace dtc {

// The row of the driver's table of formats.
[[nodiscard]] const GraphFormat& onnxFormat();

} // namespace dtc
