#pragma once
// Values that the prover runs ops on, and how it compares them.
#include "dtc/Ops/Samples.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

// A number of a counter-based stream: the same on every platform.
[[nodiscard]] uint64_t mixed(uint64_t x);
// Small values whose sums and products are exact, with ties; special: NaN, infinities and large ones among them (floats), the
// whole range (integers). `range`: of indices.
void fillTrialTensor(Tensor&, uint64_t stream, bool special, OpSample::Range range);
[[nodiscard]] Tensor literalTensor(const Module&, const Value&);

[[nodiscard]] double greatestFinite(const Tensor&); // in size; 0 where there is none
// The first element that differs, or -1: NaN to NaN, inf to inf, finite values up to the tolerance (0: equal).
[[nodiscard]] int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance);
[[nodiscard]] std::string trialElementText(const Tensor&, int64_t i);
[[nodiscard]] std::string tensorText(const Tensor&); // "[1.0, 2.0, …]"

} // namespace dtc
