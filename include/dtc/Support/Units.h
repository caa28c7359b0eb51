#pragma once
// Quantities with units, as text.
#include <cstdint>
#include <string>

namespace dtc {

// "1.5 KiB", "12.0 MiB", "640 B".
[[nodiscard]] std::string bytesText(int64_t bytes);
// At most `digits` significant digits: "0.0123", "1.5e-07".
[[nodiscard]] std::string significant(double value, int digits = 3);

} // namespace dtc
