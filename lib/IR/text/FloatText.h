#pragma once
// Conversion between floats and text, with a single rounding.
#include "dtc/Support/DType.h"
#include <string_view>

namespace dtc {

// Parses a number in the notation of ir.md (decimal or hex, integer or float, inf, nan, with optional `-`) as
// the nearest value of the float dtype `d`, rounded once, ties to even. False if `d` cannot represent it
// (overflow; inf in f8e4m3).
[[nodiscard]] bool readFloat(std::string_view text, DType d, double& out);

} // namespace dtc
