#pragma once
// Dtypes of StableHLO that dtc does not have, held in wider ones: i4, ui4, i2, ui2 in 8 bits, the further floats of 8 and 4
// bits in f32. What an op gives is brought back to the values that the dtype has, so that each op's numbers are right.
// Private to lib/Import.
#include "HloContext.h"

namespace dtc {

struct HloSmall {
  std::string_view element;
  DType held;
  int bits;
  // --- floats: signed, `exponent` + `mantissa` bits ---
  int exponent = 0, mantissa = 0, bias = 0;
  enum Beyond : uint8_t { Infinity, NaN, Greatest } beyond = Infinity; // what is too large becomes
  [[nodiscard]] bool isInteger() const { return mantissa == 0; }
  [[nodiscard]] int64_t wrap(int64_t v) const; // an integer's lowest bits
  [[nodiscard]] double greatest() const;
  [[nodiscard]] double decode(uint8_t pattern) const; // of a float's bits
};
// nullptr where an element's type is another.
[[nodiscard]] const HloSmall* findHloSmall(std::string_view element);
[[nodiscard]] inline const HloSmall* findHloSmall(const MlirType* t) {
  return t ? findHloSmall(t->element) : nullptr;
}

// The value of the dtype next to each element (of two, the even one), of integers the lowest bits.
[[nodiscard]] ValueId confined(HloContext&, ValueId, const HloSmall&);
// Of an integer without its sign's copies: the lowest bits alone.
[[nodiscard]] ValueId lowBits(HloContext&, ValueId, const HloSmall&);

} // namespace dtc
