#pragma once
// What values are while they travel between devices (sharding.md §2, "On the wire"): the same on every communicator.
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/DType.h"
#include <bit>
#include <cmath>
#include <limits>

namespace dtc {

// The dtype on the wire where the collective's `wire` says nothing; of complex numbers that of their parts. `kind`: of a
// reduction, None of a collective that only moves.
//  sum, avg, prod   f16 and f8 travel in f32, for partial sums overflow; all else as it is
//  max, min         floats as integers of the same order in which NaN wins: i32, of f64 i64
//  any, all         u8
[[nodiscard]] DType wireDType(PendingKind kind, DType dtype);
// Bytes of one element on the wire, of a complex one both parts.
[[nodiscard]] int64_t wireBytes(PendingKind kind, DType dtype);

// Does every value of the float dtype `narrow` exist in the float dtype `wide`? (bf16 in f16: no, f16 in bf16: no, f8 in f16: yes)
[[nodiscard]] bool holdsAll(DType wide, DType narrow);

// Floats in the order of signed integers, -0 below +0; NaN is the greatest (of a max) or the least (of a min).
template <class Int, class Float> [[nodiscard]] Int orderedBits(Float value, bool nanGreatest) {
  static_assert(sizeof(Int) == sizeof(Float));
  constexpr Int greatest = std::numeric_limits<Int>::max(), least = std::numeric_limits<Int>::min();
  if (std::isnan(value)) return nanGreatest ? greatest : least;
  const Int bits = std::bit_cast<Int>(value);
  return bits < 0 ? bits ^ greatest : bits;
}
template <class Float, class Int> [[nodiscard]] Float floatOfOrdered(Int ordered) {
  return std::bit_cast<Float>(ordered < 0 ? ordered ^ std::numeric_limits<Int>::max() : ordered);
}

} // namespace dtc
