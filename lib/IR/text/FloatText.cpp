#include "text/FloatText.h"

#include "dtc/IR/text/Text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace dtc {

namespace {

bool isHexNumber(std::string_view s) { return s.size() > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'); }

// `text` has no sign. On over- or underflow from_chars does not set the value; strtod tells which it was.
template <class T> T nearest(std::string_view text) {
  bool hex = isHexNumber(text);
  std::string_view digits = hex ? text.substr(2) : text;
  T v = 0;
  auto format = hex ? std::chars_format::hex : std::chars_format::general;
  auto result = std::from_chars(digits.data(), digits.data() + digits.size(), v, format);
  if (result.ec == std::errc()) return v;
  std::string copy(text);
  if constexpr (sizeof(T) == 4)
    return std::strtof(copy.c_str(), nullptr);
  else
    return std::strtod(copy.c_str(), nullptr);
}

// The decimal digits without leading and trailing zeros, and the power of ten of the first: 0.0125 is "125"
// and -2.
struct Digits {
  std::string digits;
  int64_t exponent = 0;
};

Digits digitsOf(std::string_view text) {
  Digits d;
  size_t e = text.find_first_of("eE");
  std::string_view mantissa = text.substr(0, e);
  int64_t exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view power = text.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    std::from_chars(power.data(), power.data() + power.size(), exponent);
  }
  int64_t beforePoint = -1;
  bool point = false;
  for (char c : mantissa) {
    if (c == '.') {
      point = true;
      continue;
    }
    if (d.digits.empty() && c == '0') {
      if (point) --beforePoint;
      continue;
    }
    d.digits += c;
    if (!point) ++beforePoint;
  }
  while (!d.digits.empty() && d.digits.back() == '0') d.digits.pop_back();
  d.exponent = beforePoint + exponent;
  return d;
}

// The sign of (decimal text - v), for positive numbers.
int compareDecimal(std::string_view text, double v) {
  Digits a = digitsOf(text);
  char buffer[1200]; // the exact decimal of a double has fewer than 800 digits
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific, 1100).ptr;
  Digits b = digitsOf({buffer, static_cast<size_t>(end - buffer)});
  if (a.digits.empty() || b.digits.empty())
    return static_cast<int>(!a.digits.empty()) - static_cast<int>(!b.digits.empty());
  if (a.exponent != b.exponent) return a.exponent < b.exponent ? -1 : 1;
  return a.digits.compare(b.digits);
}

// Rounds `text` once to a narrow float. The nearest double decides, unless it is a midpoint between two
// results; then the exact decimal tells which side of the midpoint the text is on.
double nearestNarrow(std::string_view text, DType d) {
  double v = nearest<double>(text);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isinf(v) || isHexNumber(text)) return roundToFloat(d, v);
  double below = std::nextafter(v, -infinity), above = std::nextafter(v, infinity);
  double low = roundToFloat(d, below), high = roundToFloat(d, above);
  if (low == high) return high; // for zero the positive one: low is -0.0
  int side = compareDecimal(text, v);
  return side < 0 ? low : side > 0 ? high : roundToFloat(d, v);
}

} // namespace

bool readFloat(std::string_view text, DType d, double& out) {
  bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double sign = negative ? -1.0 : 1.0;
  if (text == "nan") {
    out = std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    return true;
  }
  if (text == "inf") {
    out = sign * std::numeric_limits<double>::infinity();
    return d != DType::F8E4M3;
  }
  double v = d == DType::F64   ? nearest<double>(text)
             : d == DType::F32 ? nearest<float>(text)
                               : nearestNarrow(text, d);
  out = sign * v;
  return std::isfinite(v);
}

namespace {

template <class T> std::string shortest(T v) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

// The fewest significant digits that round to `v` in `d`.
std::string shortestNarrow(double v, DType d) {
  for (int precision = 0; precision < 17; ++precision) {
    char buffer[64];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific, precision).ptr;
    std::string text(buffer, end);
    double back = 0;
    // Like std::to_chars: uses a decimal point if that is not longer than an exponent.
    if (!readFloat(text, d, back) || back != v) continue;
    std::string rounded = shortest(nearest<double>(text)), exact = shortest(v);
    return exact.size() <= rounded.size() ? exact : rounded; // 448, not 450
  }
  return shortest(v);
}

} // namespace

std::string printFloat(double v, DType d) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text;
  if (std::signbit(v)) text = "-";
  v = std::fabs(v);
  text += d == DType::F32    ? shortest(static_cast<float>(v))
          : isNarrowFloat(d) ? shortestNarrow(v, d)
                             : shortest(v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

} // namespace dtc
