#pragma once
// Communication dtypes: the dtype in which a collective sends its operand. The same on every communicator.
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/DType.h"
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {

// The communication dtype of a collective without a `wire` attribute; for a complex dtype, that of its parts.
// `kind` is that of the reduction, or None for a collective that reduces nothing.
//  sum, avg, prod   f16 and f8 are sent as f32, because partial sums overflow; every other dtype as itself
//  max, min         floats as integers of the same order in which NaN wins: i32, for f64 i64
//  any, all         u8
[[nodiscard]] DType defaultCommDType(PendingKind kind, DType dtype);
// Bytes per element in the communication dtype; both parts of a complex element.
[[nodiscard]] int64_t commBytes(PendingKind kind, DType dtype);

// Whether every value of the float dtype `narrow` is representable in `wide` (bf16 in f16: no, f16 in bf16:
// no, f8 in f16: yes).
[[nodiscard]] bool holdsAll(DType wide, DType narrow);

// Maps floats to signed integers of the same order, -0 below +0; NaN becomes the max (for a max reduction) or
// the min.
template <class Int, class Float> [[nodiscard]] Int orderedBits(Float value, bool nanIsMax) {
  static_assert(sizeof(Int) == sizeof(Float));
  constexpr Int maxInt = std::numeric_limits<Int>::max(), minInt = std::numeric_limits<Int>::min();
  if (std::isnan(value)) return nanIsMax ? maxInt : minInt;
  const Int bits = std::bit_cast<Int>(value);
  return bits < 0 ? bits ^ maxInt : bits;
}
template <class Float, class Int> [[nodiscard]] Float floatOfOrdered(Int ordered) {
  return std::bit_cast<Float>(ordered < 0 ? ordered ^ std::numeric_limits<Int>::max() : ordered);
}

} // namespace dtc
