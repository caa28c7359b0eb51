// Whether a dtype can represent the values of `--input x=const(300)` and similar rules.
#include "dtc/Eval/RandomInputs.h"

#include <cmath>
#include <cstdio>

namespace dtc {
namespace {

constexpr double kMaxSigmas = 9; // the range of normal(): 53 bits cannot express a smaller probability

std::string rangeText(DType d) {
  if (isFloat(d)) {
    // The max finite value: one unit in the last place below the next power of two.
    int exponent = 0;
    for (; std::isfinite(roundToFloat(d, std::ldexp(1.0, exponent))) && exponent < 1024;) ++exponent;
    double largest = std::ldexp(2.0 - std::ldexp(1.0, 1 - mantissaBits(d)), exponent - 1);
    if (!std::isfinite(roundToFloat(d, largest))) largest = 448; // f8e4m3 has NaN there
    char text[48];
    std::snprintf(text, sizeof text, "%.6g", largest);
    return std::string(dtypeName(d)) + ", whose largest finite value is " + text;
  }
  const std::string maxText = d == DType::U64 ? std::to_string(UINT64_MAX) : std::to_string(intMax(d));
  return std::string(dtypeName(d)) + ", which goes from " + std::to_string(intMin(d)) + " to " + maxText;
}

Error outside(const InputSpec& spec, const std::string& what, DType d) {
  return usageError("'" + spec.text + "': " + what + " is out of the range of " + rangeText(d));
}

bool holds(DType d, double v) {
  if (isFloat(d)) return std::isfinite(roundToFloat(d, v));
  if (d == DType::U64) return v >= 0 && v < 0x1p64;
  if (d == DType::I64) return v >= -0x1p63 && v < 0x1p63;
  return v >= static_cast<double>(intMin(d)) && v <= static_cast<double>(intMax(d));
}

std::string numberText(double v) {
  char text[48];
  std::snprintf(text, sizeof text, "%.17g", v);
  double back = 0;
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[48];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, v);
    if (std::sscanf(shorter, "%lf", &back) == 1 && back == v) return shorter;
  }
  return text;
}

Status checkConst(const InputSpec& spec, DType d) {
  if (isFloat(d)) {
    if (std::isfinite(spec.a) && !holds(d, spec.a)) return outside(spec, numberText(spec.a), d);
    if (std::isinf(spec.a) && std::isnan(roundToFloat(d, spec.a)))
      return usageError("'" + spec.text + "': " + std::string(dtypeName(d)) + " has no infinity");
    return Ok{};
  }
  if (spec.integer) {
    const int64_t n = *spec.integer;
    const bool fits =
        d == DType::U64 ? spec.beyondI64 || n >= 0 : !spec.beyondI64 && n >= intMin(d) && n <= intMax(d);
    return fits ? Status(Ok{}) : outside(spec, spec.beyondI64 ? numberText(spec.a) : std::to_string(n), d);
  }
  if (!std::isfinite(spec.a) || spec.a != std::trunc(spec.a))
    return usageError("'" + spec.text + "': " + numberText(spec.a) + " is not an integer, but the dtype is " +
                      std::string(dtypeName(d)));
  return holds(d, spec.a) ? Status(Ok{}) : outside(spec, numberText(spec.a), d);
}

} // namespace

Status checkInputRange(const InputSpec& spec, DType dtype, int64_t elements) {
  const DType d = partType(dtype);
  if (isBool(d) || elements == 0) return Ok{};
  switch (spec.kind) {
  case InputSpec::Zeros: return Ok{};
  case InputSpec::Const: return checkConst(spec, d);
  case InputSpec::Randn:
    if (isFloat(d) && !holds(d, kMaxSigmas * spec.a))
      return outside(spec, numberText(kMaxSigmas) + " standard deviations of " + numberText(spec.a), d);
    return Ok{};
  case InputSpec::Uniform:
  case InputSpec::Randint: {
    const double last = spec.kind == InputSpec::Randint ? spec.b - 1 : spec.b;
    for (double bound : {spec.a, last})
      if (!holds(d, bound)) return outside(spec, numberText(bound), d);
    return Ok{};
  }
  case InputSpec::Iota: {
    const auto last = static_cast<double>(elements - 1);
    return holds(d, last) ? Status(Ok{}) : outside(spec, "the last element, " + numberText(last) + ",", d);
  }
  }
  return Ok{};
}

} // namespace dtc
