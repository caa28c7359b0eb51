#include "dtc/Support/DType.h"
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {
namespace {

struct DTypeFacts {
  std::string_view name;
  uint8_t bytes;
  uint8_t mantissa; // with the implicit bit
};
constexpr std::array<DTypeFacts, kNumDTypes> kFacts = {{{"bool", 1, 0},
                                                        {"i8", 1, 0},
                                                        {"i16", 2, 0},
                                                        {"i32", 4, 0},
                                                        {"i64", 8, 0},
                                                        {"u8", 1, 0},
                                                        {"u16", 2, 0},
                                                        {"u32", 4, 0},
                                                        {"u64", 8, 0},
                                                        {"f8e4m3", 1, 4},
                                                        {"f8e5m2", 1, 3},
                                                        {"bf16", 2, 8},
                                                        {"f16", 2, 11},
                                                        {"f32", 4, 24},
                                                        {"f64", 8, 53},
                                                        {"c64", 8, 24},
                                                        {"c128", 16, 53}}};

// A narrow binary float: sign, `exponent` bits, `mantissa` bits. `finite`: no infinity, only the all-ones
// pattern is NaN.
struct Format {
  int exponent;
  int mantissa;
  bool finite;
  [[nodiscard]] constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  [[nodiscard]] constexpr uint32_t signBit() const { return 1u << (exponent + mantissa); }
  [[nodiscard]] constexpr uint32_t infinity() const { return ((1u << exponent) - 1) << mantissa; }
};
constexpr Format kF16{5, 10, false}, kBf16{8, 7, false}, kF8E4M3{4, 3, true}, kF8E5M2{5, 2, false};

// `v` rounded once, to nearest with ties to even. A NaN keeps its sign and the leading bits of its payload.
uint32_t encode(const Format& f, double v) {
  const auto bits = std::bit_cast<uint64_t>(v);
  const uint32_t sign = (bits >> 63) ? f.signBit() : 0;
  const uint32_t allOnes = f.signBit() - 1;
  if (std::isnan(v)) {
    if (f.finite) return sign | allOnes;
    auto payload = static_cast<uint32_t>((bits & ((1ull << 52) - 1)) >> (52 - f.mantissa));
    return sign | f.infinity() | (payload ? payload : 1u << (f.mantissa - 1));
  }
  if (std::isinf(v)) return sign | (f.finite ? allOnes : f.infinity());
  const double a = std::fabs(v);
  if (a == 0) return sign;
  const int minExponent = 1 - f.bias();
  const int e = std::max(std::ilogb(a), minExponent);
  if (e > f.bias() + 1) return sign | (f.finite ? allOnes : f.infinity());
  // a / 2^(e - mantissa) is exact; a carry out of the mantissa increments the exponent.
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, f.mantissa - e)));
  const uint32_t hidden = 1u << f.mantissa;
  uint32_t r = units;
  if (units >= hidden) r = (static_cast<uint32_t>(e + f.bias()) << f.mantissa) + (units - hidden);
  if (f.finite) return sign | std::min(r, allOnes);
  return sign | std::min(r, f.infinity());
}

float decode(const Format& f, uint32_t bits) {
  const bool negative = bits & f.signBit();
  const uint32_t magnitude = bits & (f.signBit() - 1);
  const uint32_t mantissa = magnitude & ((1u << f.mantissa) - 1);
  const uint32_t exponent = magnitude >> f.mantissa;
  const uint32_t signOut = negative ? 0x80000000u : 0;
  if (f.finite ? magnitude == f.signBit() - 1 : magnitude > f.infinity())
    return std::bit_cast<float>(signOut | 0x7f800000u |
                                (f.finite ? 0x400000u : mantissa << (23 - f.mantissa)));
  if (!f.finite && magnitude == f.infinity()) return std::bit_cast<float>(signOut | 0x7f800000u);
  const float a = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias() - f.mantissa)
                                : std::ldexp(static_cast<float>(mantissa | (1u << f.mantissa)),
                                             static_cast<int>(exponent) - f.bias() - f.mantissa);
  return negative ? -a : a;
}

} // namespace

std::string_view dtypeName(DType d) { return kFacts[static_cast<size_t>(d)].name; }

std::optional<DType> parseDType(std::string_view name) {
  for (size_t i = 0; i < kFacts.size(); ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

int dtypeBytes(DType d) { return kFacts[static_cast<size_t>(d)].bytes; }
int mantissaBits(DType d) { return kFacts[static_cast<size_t>(d)].mantissa; }

float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t doubleToBf16(double v) { return static_cast<uint16_t>(encode(kBf16, v)); }
uint16_t doubleToF16(double v) { return static_cast<uint16_t>(encode(kF16, v)); }
float f16ToFloat(uint16_t bits) { return decode(kF16, bits); }
uint8_t doubleToF8E4M3(double v) { return static_cast<uint8_t>(encode(kF8E4M3, v)); }
float f8E4M3ToFloat(uint8_t bits) { return decode(kF8E4M3, bits); }
uint8_t doubleToF8E5M2(double v) { return static_cast<uint8_t>(encode(kF8E5M2, v)); }
float f8E5M2ToFloat(uint8_t bits) { return decode(kF8E5M2, bits); }

double roundToFloat(DType d, double v) {
  switch (d) {
  case DType::F8E4M3: return f8E4M3ToFloat(doubleToF8E4M3(v));
  case DType::F8E5M2: return f8E5M2ToFloat(doubleToF8E5M2(v));
  case DType::BF16: return bf16ToFloat(doubleToBf16(v));
  case DType::F16: return f16ToFloat(doubleToF16(v));
  case DType::F32: return static_cast<float>(v);
  default: return v;
  }
}

int64_t wrapToInt(DType d, int64_t v) {
  switch (d) {
  case DType::Bool: return v != 0;
  case DType::I8: return static_cast<int8_t>(v);
  case DType::I16: return static_cast<int16_t>(v);
  case DType::I32: return static_cast<int32_t>(v);
  case DType::U8: return static_cast<uint8_t>(v);
  case DType::U16: return static_cast<uint16_t>(v);
  case DType::U32: return static_cast<uint32_t>(v);
  default: return v;
  }
}

int64_t floatToInt(DType d, double v) {
  if (std::isnan(v)) return 0;
  if (d == DType::Bool) return v != 0;
  v = std::trunc(v);
  if (d == DType::U64) {
    if (v <= 0) return 0;
    if (v >= 0x1p64) return intMax(d);
    return static_cast<int64_t>(static_cast<uint64_t>(v));
  }
  // 2^63 is a double and INT64_MAX is not: hence >= on both sides.
  if (v <= static_cast<double>(intMin(d))) return intMin(d);
  if (v >= static_cast<double>(intMax(d))) return intMax(d);
  return static_cast<int64_t>(v);
}

bool fitsInteger(DType d, int64_t v, bool isUnsigned) {
  if (d == DType::U64) return isUnsigned || v >= 0;
  if (isUnsigned) return false;
  return v >= intMin(d) && v <= intMax(d);
}

int64_t intMin(DType d) {
  if (!isSignedInt(d)) return 0;
  return dtypeBytes(d) == 8 ? std::numeric_limits<int64_t>::min() : -(int64_t(1) << (8 * dtypeBytes(d) - 1));
}

int64_t intMax(DType d) {
  if (d == DType::Bool) return 1;
  if (d == DType::U64) return -1;
  if (isSignedInt(d)) return ~intMin(d);
  return (int64_t(1) << (8 * dtypeBytes(d))) - 1;
}

} // namespace dtc
