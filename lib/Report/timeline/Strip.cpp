#include "timeline/Strip.h"

#include <algorithm>
#include <cmath>

namespace dtc {

void Strip::add(Kind kind, double begin, double end) {
  if (end <= begin || perCell_ <= 0 || cells_.empty()) return;
  const auto last = static_cast<double>(cells_.size() - 1);
  const auto cellAt = [&](double t) {
    return static_cast<size_t>(std::clamp(std::floor(t / perCell_), 0.0, last));
  };
  for (size_t i = cellAt(begin); i <= cellAt(std::nextafter(end, 0)); ++i) {
    const double from = static_cast<double>(i) * perCell_;
    cells_[i][kind] += std::max(0.0, std::min(end, from + perCell_) - std::max(begin, from));
  }
}

std::string Strip::text() const {
  constexpr std::string_view kFull = "#=.~", kPart = ":-.~"; // by kind
  std::string row(cells_.size(), ' ');
  for (size_t i = 0; i < cells_.size(); ++i) {
    const auto most = std::ranges::max_element(cells_[i]);
    if (*most <= 0) continue;
    const auto kind = static_cast<size_t>(most - cells_[i].begin());
    row[i] = *most * 2 >= perCell_ * (1 - 1e-9) ? kFull[kind] : kPart[kind];
  }
  return row;
}

std::string Strip::legend(bool repeats) {
  return std::string(" # computes, = a message, . waits for other devices") +
         (repeats ? ", ~ further iterations of a loop" : "") +
         "\n : computes, - a message: for less than half of the time that the letter stands for";
}

} // namespace dtc
