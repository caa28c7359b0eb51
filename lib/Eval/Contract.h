#pragma once
// The fast path of matmul, linear and einsum of two operands.
#include "Nest.h"
#include "dtc/Ops/record/Scalar.h"

namespace dtc {

// The precision of sums and products inside an op. R64: f64, and for the program's own f64 values 80-bit, so
// that the reference is more accurate than the program. Rd: the accumulation dtype, each partial result
// rounded to it, in term order, as an unfused program of that dtype.
enum class Accumulate : uint8_t { Single, Double, Extended };

// Whether the nest is a sum of a * b over floats, with each reduced loop in both operands.
[[nodiscard]] bool isContraction(const Nest&, const ScalarExpr& scalar);
// The sums, each in term order. They are returned in the order of the outer loops that `order` is set to.
[[nodiscard]] std::vector<double> contract(const Nest&, std::span<const Tensor* const> operands, Accumulate,
                                           std::vector<size_t>& order);

} // namespace dtc
