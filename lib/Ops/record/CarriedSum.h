#pragma once
// Sums of the evaluator, rounded as in kernels.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// A running sum of elements of operand 0, in the accumulation dtype of kernels unless exact.
[[nodiscard]] inline long double carried(const OpQuery& q, long double sum) {
  if (q.exact) return sum;
  return accumulationType(q.type(0).dtype) == DType::F32 ? static_cast<float>(sum) : static_cast<double>(sum);
}

// Whether the evaluation uses long double: the reference for f64 must be more accurate than f64.
[[nodiscard]] inline bool isExtended(const OpQuery& q) { return q.exact && q.type(0).dtype == DType::F64; }

} // namespace dtc
