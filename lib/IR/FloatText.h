#pragma once
// Floats as text, rounded once.
#include "dtc/Support/DType.h"
#include <string>
#include <string_view>

namespace dtc {

// Reads a number as ir.md writes them (decimal or hex, integer or float, inf, nan, with or without `-`) as the nearest value
// of the float dtype `d`, rounded once, ties to even. False where `d` cannot hold it (overflow; inf in f8e4m3).
[[nodiscard]] bool readFloat(std::string_view text, DType d, double& out);

} // namespace dtc
