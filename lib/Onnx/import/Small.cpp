#include "import/Small.h"

#include <limits>

namespace dtc::onnx {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// float8e8m0: the power of two at or above |x| (up), at or below it (down), or the nearest.
Expr powerOfTwo(Expr x, bool saturate, std::string_view mode) {
  const Expr bits = bitcast(x, DType::I32);
  const Expr exponent = shr(bits, 23) & 255, fraction = bits & 0x7fffff;
  // With an exponent of 0 the smallest result is 2^-127, the pattern 0.
  Expr up = mode == "up" ? fraction > 0 : mode == "down" ? fraction > 0x7fffff : fraction >= 0x400000;
  if (mode == "up") up = up & ((exponent > 0) | (fraction > 0x400000));
  const Expr e = min(exponent + up.as(DType::I32), saturate ? 254 : 255);
  // 2^(e - 127): normal for e of 1 to 254; 2^-127 is subnormal in f32.
  const Expr power = bitcast(select(gt(e, 0), shl(e, 23), 0x400000), DType::F32);
  const Expr finite = select(gt(e, 254), kNaN, power);
  return select(is_nan(x) | is_inf(x),
                saturate ? select(is_nan(x), x.literal(kNaN), std::ldexp(1.0, 127)) : x.literal(kNaN),
                finite);
}

} // namespace

Expr roundedTo(Expr x, const ElementInfo& e, bool saturate, std::string_view mode) {
  if (e.exponentOnly) return powerOfTwo(x, saturate, mode);
  // The spacing of values near x (for subnormals that of the smallest normal) is a power of two: divides x by it,
  // rounds, multiplies.
  const Expr exponent = shr(bitcast(x, DType::I32), 23) & 255;
  const Expr low = max(exponent, 128 - e.bias) - e.mantissa;
  const Expr unit = bitcast(shl(low, 23), DType::F32);
  Expr near = round(x / unit) * unit;
  const double beyond = saturate || e.beyond == ElementInfo::Max ? e.largest() : kNaN;
  near = select(abs(near) > e.largest(), sign(near) * beyond, near);
  if (e.beyond == ElementInfo::Max) near = select(is_nan(x), -0.0, near); // there is no NaN
  if (e.beyond == ElementInfo::NaN && !saturate) near = select(is_inf(x), kNaN, near);
  if (e.beyond == ElementInfo::NaN) near = near + 0.0; // -0 + 0 is 0: there is no negative zero
  return near;
}

Expr wrappedTo(Expr x, const ElementInfo& e) {
  if (!isSignedInt(*e.held)) return x & ((int64_t(1) << e.bits) - 1);
  return shr(shl(x, 8 - e.bits), 8 - e.bits);
}

static Expr toFloat8(Expr x, DType to, bool saturate) {
  const double largest = to == DType::F8E4M3 ? 448 : 57344;
  const Expr wide = isFloat(x.dtype()) && x.dtype() != DType::F64 ? x.as(DType::F32) : x.as(DType::F32);
  if (saturate) return select(is_nan(wide), wide, clamp(wide, -largest, largest)).as(to);
  // What rounds beyond the largest value is NaN in e4m3, infinite in e5m2.
  const double half = to == DType::F8E4M3 ? 16 : 4096; // half of the spacing there
  const double beyond = to == DType::F8E4M3 ? kNaN : kInfinity;
  const Expr over = to == DType::F8E4M3 ? abs(wide) > largest + half : abs(wide) >= largest + half;
  return select(over, sign(wide) * beyond, wide).as(to);
}

Expr castTo(OnnxContext& c, Expr x, int32_t from, int32_t to, bool saturate, std::string_view mode) {
  const ElementInfo* e = findElement(to);
  const DType held = c.heldBy(to);
  if (from == to) return x;
  if (isComplex(x.dtype()) != isComplex(held)) c.fail("converts between complex and real numbers");
  if (isF8(held)) return toFloat8(x, held, saturate);
  if (!e->narrow) {
    // Floats to integers truncate; out of range they wrap in practice, where dtc saturates: not defined by ONNX.
    return x.as(held);
  }
  if (!isFloat(held)) {
    Expr integer = x;
    if (isFloat(x.dtype())) integer = trunc(x).as(DType::I32);
    if (isBool(x.dtype())) return x.as(held);
    return wrappedTo(integer.as(held), *e);
  }
  return roundedTo(x.as(DType::F32), *e, saturate, mode);
}

} // namespace dtc::onnx
