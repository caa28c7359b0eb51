#pragma once
// Counts as text.
#include <string>
#include <string_view>

namespace dtc {

// "1 argument", "2 arguments".
[[nodiscard]] inline std::string counted(std::size_t n, std::string_view word) {
  return std::to_string(n) + " " + std::string(word) + (n == 1 ? "" : "s");
}

} // namespace dtc
