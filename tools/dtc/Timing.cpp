#include "Timing.h"

#include <cstdio>

namespace dtc {

std::string Timing::table() const {
  double total = 0;
  for (const Row& r : rows_) total += r.milliseconds;
  std::string text;
  auto line = [&](const std::string& phase, double ms) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "// %9.3f ms  %5.1f %%  ", ms, total > 0 ? 100 * ms / total : 0.0);
    text += numbers + phase + "\n";
  };
  for (const Row& r : rows_) line(r.phase, r.milliseconds);
  line("total", total);
  return text;
}

} // namespace dtc
