#pragma once
// Sums in the evaluation of ops, as kernels round them.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// A running sum of elements of operand 0: in the accumulation dtype of kernels unless exact.
[[nodiscard]] inline long double carried(const OpQuery& q, long double sum) {
  if (q.exact) return sum;
  return accumulationType(q.type(0).dtype) == DType::F32 ? static_cast<float>(sum) : static_cast<double>(sum);
}

// Is the type that an evaluation calculates in to be long double? The reference of f64 must be better than what it judges.
[[nodiscard]] inline bool isExtended(const OpQuery& q) { return q.exact && q.type(0).dtype == DType::F64; }

} // namespace dtc
