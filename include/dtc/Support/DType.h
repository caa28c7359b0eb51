#pragma once
// The element types of the IR and their arithmetic facts.
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
[[nodiscard]] inline bool isComplex(DType d) { return d >= DType::C64; }
[[nodiscard]] inline bool isBool(DType d) { return d == DType::Bool; }
[[nodiscard]] inline bool isInteger(DType d) { return d >= DType::I8 && d <= DType::U64; } // not Bool
[[nodiscard]] inline bool isSignedInt(DType d) { return d >= DType::I8 && d <= DType::I64; }
[[nodiscard]] inline bool isUnsignedInt(DType d) { return d >= DType::U8 && d <= DType::U64; }
[[nodiscard]] inline bool isNarrowFloat(DType d) { return isFloat(d) && d < DType::F32; }
// The dtype that sums and products of `d` are accumulated in: f32 for the narrow floats, else d itself.
[[nodiscard]] inline DType accumulationType(DType d) { return isNarrowFloat(d) ? DType::F32 : d; }
// The dtype of the parts of a complex number (c64: f32, c128: f64); any other dtype is its own part.
[[nodiscard]] inline DType partType(DType d) {
  return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : d;
}
// The complex dtype with parts of dtype `d`; nothing where there is none.
[[nodiscard]] inline std::optional<DType> complexType(DType d) {
  if (d == DType::F32) return DType::C64;
  return d == DType::F64 ? std::optional(DType::C128) : std::nullopt;
}
// Precision in bits with the hidden one (f32: 24); of a complex dtype that of its parts; 0 for bool and integers.
[[nodiscard]] int mantissaBits(DType d);

// --- Bit conversions of narrow floats; rounding is to nearest, ties to even. ---
// f8e4m3 is OCP E4M3FN: no infinity, overflow gives NaN. f8e5m2, f16 and bf16 overflow to infinity.
[[nodiscard]] uint16_t floatToBf16(float f);
[[nodiscard]] float bf16ToFloat(uint16_t bits);
[[nodiscard]] uint16_t doubleToF16(double v);
[[nodiscard]] float f16ToFloat(uint16_t bits);
[[nodiscard]] uint8_t doubleToF8E4M3(double v);
[[nodiscard]] float f8E4M3ToFloat(uint8_t bits);
[[nodiscard]] uint8_t doubleToF8E5M2(double v);
[[nodiscard]] float f8E5M2ToFloat(uint8_t bits);
[[nodiscard]] uint16_t doubleToBf16(double v); // rounded once
// `v` rounded once to the float dtype `d` and widened again.
[[nodiscard]] double roundToFloat(DType d, double v);
// Wraps a 64-bit integer into integer dtype `d` (two's complement) and widens it again
// (unsigned 64-bit values travel as the int64 of the same bits).
[[nodiscard]] int64_t wrapToInt(DType d, int64_t v);
// Saturating float to integer (NaN gives 0); result as in wrapToInt.
[[nodiscard]] int64_t floatToInt(DType d, double v);
// Least and greatest value of an integer dtype, as in wrapToInt.
[[nodiscard]] int64_t intMin(DType d);
[[nodiscard]] int64_t intMax(DType d);

} // namespace dtc
