#include "view/Axis.h"

#include "dtc/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {

struct Unit {
  double factor;
  const char* suffix;
};

// The unit in which a number of this size has one to three digits before the point.
static Unit unitOf(double size) {
  constexpr Unit kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const Unit& u : kUnits)
    if (size >= 10 * u.factor || (size >= u.factor && u.factor > 1e3)) return u;
  return {1, ""};
}

static std::string decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string timeTick(double seconds) {
  if (seconds == 0) return "0";
  for (const auto& [unit, name] : {std::pair(1.0, " s"), {1e-3, " ms"}, {1e-6, " us"}})
    if (seconds >= unit) return significant(seconds / unit, 4) + name;
  return significant(seconds * 1e9, 4) + " ns";
}

std::string shortCount(double value) {
  const Unit unit = unitOf(std::abs(value));
  return unit.factor > 1 ? significant(value / unit.factor, 3) + unit.suffix
                         : significant(value, std::abs(value) < 1000 ? 3 : 4);
}

// A label of a multiple of `step`, with as many digits as tell the multiples apart.
static std::string tickLabel(double value, double step, double largest) {
  const Unit unit = unitOf(largest);
  const double digits = std::ceil(-std::log10(step / unit.factor) - 1e-9);
  if (value == 0) return "0";
  if (largest < 1e-4 || largest >= 1e15 || digits > 8) return significant(value, 3);
  return decimal(value / unit.factor, static_cast<int>(std::max(digits, 0.0))) + unit.suffix;
}

double Axis::at(double value) const {
  const double where = logarithmic ? (std::log10(std::max(value, low)) - std::log10(low)) /
                                         (std::log10(high) - std::log10(low))
                                   : (value - low) / (high - low);
  return std::clamp(where, 0.0, 1.0);
}

// 1, 2 or 5 times a power of ten.
static double roundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double m : {1.0, 2.0, 5.0})
    if (m * power >= least * (1 - 1e-9)) return m * power;
  return 10 * power;
}

// A range of some length; numbers of any size, without overflow.
static void widen(double& low, double& high) {
  constexpr double kLimit = 1e300;
  low = std::clamp(low, -kLimit, kLimit);
  high = std::clamp(high, -kLimit, kLimit);
  const double size = std::max(std::abs(low), std::abs(high));
  const double least = size > 0 ? size * 1e-6 : 1;
  if (high - low >= least && high - low > 1e-290) return;
  const double pad = size > 1e-280 ? size * 0.1 : 1;
  low -= pad;
  high += pad;
}

Axis linearAxis(double low, double high, int count, AxisEnds ends) {
  Axis axis;
  widen(low, high);
  const double step = roundStep((high - low) / count);
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  axis.low = ends == AxisEnds::Round ? first * step : low;
  axis.high = ends == AxisEnds::Round ? last * step : high;
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  for (double i = first; i <= last; ++i) {
    const double value = i * step;
    if (value < axis.low - step * 1e-6 || value > axis.high + step * 1e-6) continue;
    axis.ticks.push_back({axis.at(value), tickLabel(value, step, largest)});
  }
  return axis;
}

Axis logAxis(double low, double high, int count) {
  Axis axis;
  axis.logarithmic = true;
  const double mantissas[] = {1, 2, 5};
  std::vector<std::pair<double, bool>> values; // and whether it is a power of ten
  for (double e = std::floor(std::log10(low)) - 1; e <= std::ceil(std::log10(high)) + 1; ++e)
    for (double m : mantissas) values.emplace_back(m * std::pow(10, e), m == 1);
  // The values between the last one below and the first one above.
  const auto above = [&](double v) {
    return std::ranges::find_if(values, [&](const auto& value) { return value.first > v * (1 + 1e-9); });
  };
  values.erase(above(high / (1 + 2e-9)) + 1, values.end());
  values.erase(values.begin(), above(low) - 1);
  axis.low = values.front().first;
  axis.high = values.back().first;
  const auto most = 2 * static_cast<size_t>(count); // labels are short
  const bool all = values.size() <= most;
  const auto powers = static_cast<size_t>(std::ranges::count(values, true, &std::pair<double, bool>::second));
  const size_t every = all ? 1 : (powers + most - 1) / most;
  size_t power = 0;
  for (const auto& [value, isPower] : values)
    if (all || (isPower && power++ % every == 0)) {
      const bool plain = value >= 9e-5 && value < 1e5;
      axis.ticks.push_back({axis.at(value), plain ? significant(value, 6) : significant(value, 1)});
    }
  return axis;
}

} // namespace dtc
