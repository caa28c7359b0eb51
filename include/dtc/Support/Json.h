#pragma once
// JSON as text, for reports that are written piece by piece.
#include <string>
#include <string_view>

namespace dtc {

// `text` as a JSON string, with its quotes: control characters, quotes and backslashes escaped; bytes that are no UTF-8
// become U+FFFD.
[[nodiscard]] std::string jsonString(std::string_view text);

// The shortest JSON number that reads back as `v`; what JSON has no number for is the string "nan", "inf" or "-inf".
[[nodiscard]] std::string jsonNumber(double v);

} // namespace dtc
