#pragma once
// The fast path of matmul, linear and einsum of two operands.
#include "Nest.h"
#include "dtc/Ops/Scalar.h"

namespace dtc {

// What sums and products inside an op are carried in. R64: f64, and for the program's own f64 values 80-bit, so that the
// reference is better than what it judges. Rd: the dtype's accumulation type, each partial result rounded to it, in the
// order of the terms: what a plain program of that dtype does.
enum class Accumulate : uint8_t { Single, Double, Extended };

// Is the nest a sum of a * b over floats, each reduced loop in both operands?
[[nodiscard]] bool isContraction(const Nest&, const ScalarExpr& scalar);
// The sums, each in the order of its terms. They come in the order of the outer loops that `order` is set to.
[[nodiscard]] std::vector<double> contract(const Nest&, std::span<const Tensor* const> operands, Accumulate,
                                           std::vector<size_t>& order);

} // namespace dtc
