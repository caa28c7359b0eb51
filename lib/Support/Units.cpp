#include "dtc/Support/Units.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

namespace dtc {

std::optional<int64_t> parseBytes(std::string_view text) {
  const auto n = takeNumber<int64_t>(text);
  if (!n || *n < 0) return std::nullopt;
  double fraction = 0; // as written: 0.4 of "5.4"
  if (text.starts_with('.')) {
    const size_t digits = text.find_first_not_of("0123456789", 1);
    if (digits == 1 || text.size() == 1) return std::nullopt;
    std::string_view part = text.substr(0, digits);
    fraction = takeNumber<double>(part).value_or(0);
    text.remove_prefix(std::min(digits, text.size()));
    if (text.empty() || text == "B") return std::nullopt; // bytes are not divided
  }
  if (text.size() > 1 && text[0] == ' ') text.remove_prefix(1); // as in bytesText
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {

      {"", 1},
      {"B", 1},
      {"KiB", 1 << 10},
      {"MiB", 1 << 20},
      {"GiB", 1 << 30},
      {"TiB", int64_t{1} << 40},
      {"kB", 1000},
      {"MB", 1000000},
      {"GB", 1000000000},
      {"TB", 1000000000000}};
  for (auto [name, bytes] : kUnits)
    if (text == name) {
      const auto units = checkedMul(*n, bytes);
      return units ? checkedAdd(*units, std::llround(fraction * static_cast<double>(bytes))) : units;
    }
  return std::nullopt;
}

std::string bytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double v = static_cast<double>(bytes);
  size_t u = 0;
  for (; v >= 1024 && u + 1 < std::size(kUnits); ++u) v /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, u == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, kUnits[u]);
  return text;
}

std::string significant(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

} // namespace dtc
