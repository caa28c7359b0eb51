#pragma once
// StableHLO dtypes that dtc stores in wider ones: i4, ui4, i2, ui2 in 8 bits, the other floats of 8 and 4
// bits in f32. Results are rounded to the values of the dtype, so that each op is exact.
#include "import/HloContext.h"

namespace dtc {

struct HloSmall {
  std::string_view element;
  DType held;
  int bits;
  // --- floats: signed, `exponent` + `mantissa` bits; without a mantissa: powers of two, without sign or zero ---
  int exponent = 0, mantissa = 0, bias = 0;
  enum Beyond : uint8_t { Infinity, NaN, Max } beyond = Infinity; // the result of overflow
  [[nodiscard]] bool isInteger() const { return exponent == 0; }
  [[nodiscard]] bool isPower() const { return !isInteger() && mantissa == 0; }
  [[nodiscard]] int64_t wrap(int64_t v) const; // an integer's lowest bits
  [[nodiscard]] double max() const;
  [[nodiscard]] double decode(uint8_t pattern) const; // of a float's bits
};
// nullptr for any other element type.
[[nodiscard]] const HloSmall* findHloSmall(std::string_view element);
[[nodiscard]] inline const HloSmall* findHloSmall(const MlirType* t) {
  return t ? findHloSmall(t->element) : nullptr;
}

// Rounds to the nearest value of the dtype (ties to even); integers keep the lowest bits.
[[nodiscard]] ValueId confined(HloContext&, ValueId, const HloSmall&);
// An integer without its sign extension: the lowest bits alone.
[[nodiscard]] ValueId lowBits(HloContext&, ValueId, const HloSmall&);

} // namespace dtc
