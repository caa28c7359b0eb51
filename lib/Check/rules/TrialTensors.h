#pragma once
// The values on which the prover runs ops, and their comparison.
#include "dtc/Ops/record/Samples.h"
#include "dtc/Support/Tensor.h"
#include <span>

namespace dtc {

// The distributions of a trial's values. Each refutes claims that hold on the values of all others.
enum class TrialValues : uint8_t {
  // quarters from -2 to 2 without 0: sums and products of a few are exact, ties are frequent, signs vary
  Small,
  // one value with few exceptions, zeros and ones too: what only one shard has, such as a maximum or a single
  // false
  Sparse,
  // constants of the op (literals, attributes, the maximum of a narrower dtype), their halves and neighbors
  Near,
  Wide,    // powers of two of very different magnitude; odd integers, whose products never vanish
  Large,   // near the maximum of the dtype: sums and products overflow
  Special, // NaN, infinities and zeros of both signs among small values; the whole range of integers
};
// In the order in which they are tried; special and sparse values interact most with other tensors.
inline constexpr TrialValues kTrialOrder[] = {TrialValues::Small,  TrialValues::Special, TrialValues::Sparse,
                                              TrialValues::Near,   TrialValues::Special, TrialValues::Wide,
                                              TrialValues::Sparse, TrialValues::Large};

struct TrialFill {
  TrialValues values = TrialValues::Small;
  OpSample::Range range = {};        // for indices, or for floats where the sample states one
  std::span<const double> near = {}; // for Near; empty: small numbers
};

// Element i of a counter-based stream: the same on every platform.
[[nodiscard]] uint64_t mixed(uint64_t x);
void fillTrialTensor(Tensor&, uint64_t stream, const TrialFill&);

[[nodiscard]] double maxFinite(DType);                  // the largest finite value of a float dtype
[[nodiscard]] double maxFiniteMagnitude(const Tensor&); // in magnitude; 0 where there is none
[[nodiscard]] bool isFinite(const Tensor&);             // of all elements
// NaN equals NaN, inf equals inf, finite values within the tolerance (0: equal), at one row-major index.
[[nodiscard]] bool agreesAt(const Tensor& got, const Tensor& want, int64_t i, double tolerance);
// The first element that differs, or -1.
[[nodiscard]] int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance);
[[nodiscard]] std::string trialElementText(const Tensor&, int64_t i);
[[nodiscard]] std::string tensorText(const Tensor&); // "[1.0, 2.0, …]"

} // namespace dtc
