#pragma once
// The element types of the IR and their properties.
#include <cstdint>
#include <optional>
#include <string_view>

namespace dtc {

enum class DType : uint8_t {
  Bool,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3,
  F8E5M2,
  BF16,
  F16,
  F32,
  F64,
  C64, // two f32: real part, imaginary part
  C128 // two f64
};
inline constexpr int kNumDTypes = 17;

[[nodiscard]] std::string_view dtypeName(DType d); // "f32"
[[nodiscard]] std::optional<DType> parseDType(std::string_view name);
[[nodiscard]] int dtypeBytes(DType d); // bytes of one element; Bool is 1
[[nodiscard]] inline bool isFloat(DType d) { return d >= DType::F8E4M3 && d <= DType::F64; }
[[nodiscard]] inline bool isF8(DType d) { return d == DType::F8E4M3 || d == DType::F8E5M2; }
[[nodiscard]] inline bool isComplex(DType d) { return d >= DType::C64; }
[[nodiscard]] inline bool isBool(DType d) { return d == DType::Bool; }
[[nodiscard]] inline bool isInteger(DType d) { return d >= DType::I8 && d <= DType::U64; } // not Bool
[[nodiscard]] inline bool isSignedInt(DType d) { return d >= DType::I8 && d <= DType::I64; }
[[nodiscard]] inline bool isUnsignedInt(DType d) { return d >= DType::U8 && d <= DType::U64; }
[[nodiscard]] inline bool isNarrowFloat(DType d) { return isFloat(d) && d < DType::F32; }
// The accumulation dtype of sums and products of `d`: f32 for the narrow floats, else d itself.
[[nodiscard]] inline DType accumulationType(DType d) { return isNarrowFloat(d) ? DType::F32 : d; }
// The dtype of the parts of a complex number (c64: f32, c128: f64); for any other dtype the dtype itself.
[[nodiscard]] inline DType partType(DType d) {
  return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : d;
}
// The complex dtype with parts of dtype `d`; empty if there is none.
[[nodiscard]] inline std::optional<DType> complexType(DType d) {
  if (d == DType::F32) return DType::C64;
  return d == DType::F64 ? std::optional(DType::C128) : std::nullopt;
}
// Precision in bits, including the implicit one (f32: 24); for a complex dtype that of its parts; 0 for bool
// and integers.
[[nodiscard]] int mantissaBits(DType d);

// --- Bit conversions of narrow floats; rounding is to nearest, ties to even. ---
// f8e4m3 is OCP E4M3FN: no infinity, overflow gives NaN. f8e5m2, f16 and bf16 overflow to infinity.
[[nodiscard]] float bf16ToFloat(uint16_t bits);
[[nodiscard]] uint16_t doubleToF16(double v);
[[nodiscard]] float f16ToFloat(uint16_t bits);
[[nodiscard]] uint8_t doubleToF8E4M3(double v);
[[nodiscard]] float f8E4M3ToFloat(uint8_t bits);
[[nodiscard]] uint8_t doubleToF8E5M2(double v);
[[nodiscard]] float f8E5M2ToFloat(uint8_t bits);
[[nodiscard]] uint16_t doubleToBf16(double v); // rounded once
// `v` rounded once to the float dtype `d`, as double.
[[nodiscard]] double roundToFloat(DType d, double v);
// Wraps a 64-bit integer to the integer dtype `d` (two's complement) and widens it again (an unsigned 64-bit
// value is represented by the int64 of the same bits).
[[nodiscard]] int64_t wrapToInt(DType d, int64_t v);
// Saturating float to integer conversion (NaN gives 0); the result is represented as in wrapToInt.
[[nodiscard]] int64_t floatToInt(DType d, double v);
// Whether an integer dtype has the value; `isUnsigned`: the bits of a number from 2^63.
[[nodiscard]] bool fitsInteger(DType d, int64_t v, bool isUnsigned);
// Min and max of an integer dtype, represented as in wrapToInt.
[[nodiscard]] int64_t intMin(DType d);
[[nodiscard]] int64_t intMax(DType d);

} // namespace dtc
