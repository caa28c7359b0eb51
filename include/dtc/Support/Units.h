#pragma once
// Quantities with units, as text.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

// "1.5 KiB", "12.0 MiB", "640 B".
[[nodiscard]] std::string bytesText(int64_t bytes);
// "100MiB", "5.4 GiB", "1048576": bytes; nothing if it is not such a number.
[[nodiscard]] std::optional<int64_t> parseBytes(std::string_view text);
// At most `digits` significant digits: "0.0123", "1.5e-07".
[[nodiscard]] std::string significant(double value, int digits = 3);

} // namespace dtc
