#pragma once
// JSON text for reports that are written incrementally.
#include <string>
#include <string_view>

namespace dtc {

// `text` as a quoted JSON string: control characters, quotes and backslashes are escaped; invalid UTF-8
// becomes U+FFFD.
[[nodiscard]] std::string jsonString(std::string_view text);

// The shortest JSON number that parses back to `v`; non-finite values become the string "nan", "inf" or
// "-inf".
[[nodiscard]] std::string jsonNumber(double v);

} // namespace dtc
