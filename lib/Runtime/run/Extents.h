#pragma once
// Whether tensors in the caller's memory share elements.
#include "dtc/Runtime/run/BorrowedTensor.h"
#include "dtc/Support/Result.h"

namespace dtc {

// The memory between the first and the last byte of a tensor.
struct Extent {
  uintptr_t begin = UINTPTR_MAX, end = 0; // empty: of a tensor that is skipped or has no elements
  [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
  void add(const Extent& other);
};
[[nodiscard]] Extent extentOf(const BorrowedTensor&);

// Error (Usage): two results share memory, or elements of one do, so that it is open which of them is there at the end.
[[nodiscard]] Status checkDisjoint(std::span<const BorrowedTensor> results);

} // namespace dtc
