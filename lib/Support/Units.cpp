#include "dtc/Support/Units.h"

#include <cstdio>
#include <iterator>

namespace dtc {

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
