#include "import/HloSmall.h"

#include <algorithm>
#include <cmath>
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
    {"f4E2M1FN", DType::F32, 4, 2, 1, 1, S::Max},
    {"f8E8M0FNU", DType::F32, 8, 8, 0, 127, S::NaN},
};

// The spacing of values near x (for subnormals that of the smallest normal) is a power of two: divides x by
// it, rounds, multiplies. Zero loses its sign where the dtype has no negative zero.
ValueId roundedTo(HloContext& c, ValueId x, const HloSmall& s) {
  const auto i32 = [&](int v) { return c.literal(v, DType::I32); };
  const auto f32 = [&](double v) { return c.literal(v, DType::F32); };
  const auto bitcast = [&](ValueId v, DType to) {
    return c.emit("bitcast", {v}, {{"dtype", c.dtypeAttr(to)}});
  };
  const ValueId exponent = c.emit("and", {c.emit("shr", {bitcast(x, DType::I32), i32(23)}), i32(255)});
  const ValueId low = c.emit("sub", {c.emit("max", {exponent, i32(128 - s.bias)}), i32(s.mantissa)});
  const ValueId unit = bitcast(c.emit("shl", {low, i32(23)}), DType::F32);
  const ValueId near = c.emit("mul", {c.emit("round", {c.emit("div", {x, unit})}), unit});
  const double beyond = s.beyond == S::Infinity ? std::numeric_limits<double>::infinity()
                        : s.beyond == S::NaN    ? std::numeric_limits<double>::quiet_NaN()
                                                : s.max();
  const ValueId bounded = c.emit("select", {c.emit("gt", {c.emit("abs", {near}), f32(s.max())}),
                                            c.emit("mul", {c.emit("sign", {near}), f32(beyond)}), near});
  // These types have no NaN: XLA gives -0.
  return s.beyond == S::Max ? c.emit("select", {c.emit("is_nan", {x}), f32(-0.0), bounded}) : bounded;
}

// The nearest power of two, the greater one of two: half of the mantissa's range is added to the bits, of which the
// exponent stays. The exponents are those of f32, except that the least power, 2^-127, is subnormal there.
ValueId nearestPower(HloContext& c, ValueId x) {
  const auto i32 = [&](int v) { return c.literal(v, DType::I32); };
  const auto f32 = [&](double v) { return c.literal(v, DType::F32); };
  const auto bitcast = [&](ValueId v, DType to) {
    return c.emit("bitcast", {v}, {{"dtype", c.dtypeAttr(to)}});
  };
  const ValueId bits = c.emit("add", {bitcast(x, DType::I32), i32(1 << 22)});
  const ValueId normal = bitcast(c.emit("and", {bits, i32(0xff << 23)}), DType::F32);
  const ValueId near =
      c.emit("select", {c.emit("lt", {x, f32(std::ldexp(1.5, -127))}), f32(std::ldexp(1.0, -127)), normal});
  const ValueId inRange =
      c.emit("and", {c.emit("gt", {x, f32(0)}), c.emit("lt", {x, f32(std::ldexp(1.5, 127))})});
  return c.emit("select", {inRange, near, f32(std::numeric_limits<double>::quiet_NaN())});
}

} // namespace

double HloSmall::max() const {
  const int top = (1 << exponent) - (beyond == Infinity ? 2 : 1);
  return std::ldexp(2 - std::ldexp(1.0, -mantissa), top - bias);
}

int64_t HloSmall::wrap(int64_t v) const {
  const int64_t low = v & ((int64_t(1) << bits) - 1);
  return held == DType::I8 && (low >> (bits - 1)) ? low - (int64_t(1) << bits) : low;
}

double HloSmall::decode(uint8_t pattern) const {
  if (isPower())
    return pattern == (1 << exponent) - 1 ? std::numeric_limits<double>::quiet_NaN()
                                          : std::ldexp(1.0, pattern - bias);
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
  if (s.isPower()) return nearestPower(c, v);
  const ValueId near = roundedTo(c, v, s);
  // Removes a negative zero: -0 + 0 is 0.
  return s.beyond == S::NaN ? c.emit("add", {near, c.literal(0, s.held)}) : near;
}

} // namespace dtc
