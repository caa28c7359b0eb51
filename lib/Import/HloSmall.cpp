#include "HloSmall.h"
#include "HloFactor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace dtc {

namespace {

using S = HloSmall;
constexpr HloSmall kSmall[] = {
    {"i4", DType::I8, 4},
    {"ui4", DType::U8, 4},
    {"i2", DType::I8, 2},
    {"ui2", DType::U8, 2},
    {"f8E4M3", DType::F32, 8, 4, 3, 7, S::Infinity},
    {"f8E3M4", DType::F32, 8, 3, 4, 3, S::Infinity},
    {"f8E4M3FNUZ", DType::F32, 8, 4, 3, 8, S::NaN},
    {"f8E4M3B11FNUZ", DType::F32, 8, 4, 3, 11, S::NaN},
    {"f8E5M2FNUZ", DType::F32, 8, 5, 2, 16, S::NaN},
    {"f4E2M1FN", DType::F32, 4, 2, 1, 1, S::Greatest},
};

// The distance of neighbours near x, of subnormal numbers that of the least normal ones, is a power of two: x in such units,
// rounded, times it. Zero has no sign where the dtype's has none.
constexpr std::string_view kRound = R"(
%bits = bitcast %x {dtype = i32}
%shifted = shr %bits, 23
%exponent = and %shifted, 255
%normal = max %exponent, $least
%low = sub %normal, $mantissa
%pattern = shl %low, 23
%unit = bitcast %pattern {dtype = f32}
%units = div %x, %unit
%rounded = round %units
%near = mul %rounded, %unit
%size = abs %near
%over = gt %size, $greatest
%sign = sign %near
%most = mul %sign, $beyond
%y = select %over, %most, %near
yield %y
)";

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", v);
  const std::string out = text;
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

} // namespace

int64_t HloSmall::wrap(int64_t v) const {
  const int64_t low = v & ((int64_t(1) << bits) - 1);
  return held == DType::I8 && (low >> (bits - 1)) ? low - (int64_t(1) << bits) : low;
}

double HloSmall::greatest() const {
  const int top = (1 << exponent) - (beyond == Infinity ? 2 : 1);
  return std::ldexp(2 - std::ldexp(1.0, -mantissa), top - bias);
}

double HloSmall::decode(uint8_t pattern) const {
  const int fraction = pattern & ((1 << mantissa) - 1), e = (pattern >> mantissa) & ((1 << exponent) - 1);
  const bool negative = (pattern >> (mantissa + exponent)) & 1;
  if (beyond == NaN && negative && e == 0 && fraction == 0) return std::numeric_limits<double>::quiet_NaN();
  if (beyond == Infinity && e == (1 << exponent) - 1) {
    if (fraction) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const double size = std::ldexp(fraction + (e ? 1 << mantissa : 0), std::max(e, 1) - bias - mantissa);
  return negative ? -size : size;
}

const HloSmall* findHloSmall(std::string_view element) {
  const auto* found = std::ranges::find(kSmall, element, &HloSmall::element);
  return found == std::end(kSmall) ? nullptr : found;
}

ValueId lowBits(HloContext& c, ValueId v, const HloSmall& s) {
  return c.emit("and", {v, c.literal((1 << s.bits) - 1, s.held)});
}

ValueId confined(HloContext& c, ValueId v, const HloSmall& s) {
  if (!v.valid() || c.dtypeOf(v) != s.held) return v;
  if (s.held == DType::U8) return lowBits(c, v, s);
  if (s.isInteger()) {
    const ValueId by = c.literal(8 - s.bits, s.held);
    return c.emit("shr", {c.emit("shl", {v, by}), by});
  }
  const std::string least = std::to_string(128 - s.bias), mantissa = std::to_string(s.mantissa),
                    greatest = number(s.greatest()),
                    beyond = s.beyond == S::Infinity ? "inf"
                             : s.beyond == S::NaN    ? "nan"
                                                     : greatest;
  const HloTextValue values[] = {
      {"least", least}, {"mantissa", mantissa}, {"greatest", greatest}, {"beyond", beyond}};
  const std::pair<std::string_view, ValueId> bindings[] = {{"x", v}};
  const std::vector<ValueId> made = inlineProgram(c, kRound, values, bindings);
  if (made.size() != 1) return {};
  // Without a negative zero: -0 + 0 is 0.
  return s.beyond == S::NaN ? c.emit("add", {made[0], c.literal(0, s.held)}) : made[0];
}

} // namespace dtc
