#pragma once
// Values that the prover runs ops on, and how it compares them.
#include "dtc/Ops/Samples.h"
#include "dtc/Support/Tensor.h"
#include <span>

namespace dtc {

// How the values of a trial are drawn. Each way refutes claims that hold on the values of all others.
enum class TrialValues : uint8_t {
  Small, // quarters from -2 to 2 without 0: sums and products of a few are exact, ties are frequent, signs vary
  Sparse, // one value and few others among it, zeros and ones too: what one piece alone has, an extreme or a false among trues
  Near,  // numbers of the op (literals, attributes, the end of a narrower dtype), their halves and neighbours
  Wide,  // powers of two of very different size; odd integers, of which no product vanishes
  Large, // near the maximum of the dtype: sums and products overflow
  Special, // NaN, infinities and zeros of both signs among small values; the whole range of integers
};
// In the order in which they are tried; what is special and what is sparse have most to meet in other tensors.
inline constexpr TrialValues kTrialOrder[] = {TrialValues::Small,  TrialValues::Special, TrialValues::Sparse,
                                              TrialValues::Near,   TrialValues::Special, TrialValues::Wide,
                                              TrialValues::Sparse, TrialValues::Large};

struct TrialFill {
  TrialValues values = TrialValues::Small;
  OpSample::Range range = {};        // of indices, or of floats where the sample says one
  std::span<const double> near = {}; // of Near; empty: small numbers
};

// A number of a counter-based stream: the same on every platform.
[[nodiscard]] uint64_t mixed(uint64_t x);
void fillTrialTensor(Tensor&, uint64_t stream, const TrialFill&);
[[nodiscard]] Tensor literalTensor(const Module&, const Value&);

[[nodiscard]] double maxFinite(DType);                  // the largest finite value of a float dtype
[[nodiscard]] double maxFiniteMagnitude(const Tensor&); // in size; 0 where there is none
[[nodiscard]] bool isFinite(const Tensor&);             // all of its elements
// NaN to NaN, inf to inf, finite values up to the tolerance (0: equal), at one row-major index.
[[nodiscard]] bool agreesAt(const Tensor& got, const Tensor& want, int64_t i, double tolerance);
// The first element that differs so, or -1.
[[nodiscard]] int64_t firstDifference(const Tensor& got, const Tensor& want, double tolerance);
[[nodiscard]] std::string trialElementText(const Tensor&, int64_t i);
[[nodiscard]] std::string tensorText(const Tensor&); // "[1.0, 2.0, …]"

} // namespace dtc
