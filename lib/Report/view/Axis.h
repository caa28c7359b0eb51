#pragma once
// The axis of a chart: its range, and ticks at round numbers.
#include <string>
#include <vector>

namespace dtc {

struct Axis {
  struct Tick {
    double at = 0; // 0 … 1 along the axis
    std::string label;
  };
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks; // from low to high

  // Where a finite value is, 0 … 1; values outside of the range are moved to its ends.
  [[nodiscard]] double at(double value) const;
};

enum class AxisEnds : unsigned char { Round, Exact }; // whether the range is extended to ticks

// For finite values from `low` to `high`, with about `count` ticks.
[[nodiscard]] Axis linearAxis(double low, double high, int count, AxisEnds ends);
// For values above 0, with ticks at powers of ten.
[[nodiscard]] Axis logAxis(double low, double high, int count);

// A tick of a time in seconds: "0", "250 us", "1.5 ms".
[[nodiscard]] std::string timeTick(double seconds);

// "950", "14.2k", "1.3M".
[[nodiscard]] std::string shortCount(double value);

} // namespace dtc
