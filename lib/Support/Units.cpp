#include "dtc/Support/Units.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <cstdio>
#include <iterator>
#include <utility>

namespace dtc {

std::optional<int64_t> parseBytes(std::string_view text) {
  const auto n = takeNumber<int64_t>(text);
  if (!n || *n < 0) return std::nullopt;
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", int64_t{1} << 40}};
  for (auto [name, bytes] : kUnits)
    if (text == name) return checkedMul(*n, bytes);
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
