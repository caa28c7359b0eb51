#pragma once
// The problems that libraries solve, each described once: with Extent = SizeFormula in a lowered program, whose
// sizes may be symbolic, and int64_t on a device and in lib/Cuda. Strides are in elements.
#include "dtc/Support/DType.h"
#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

// GeluTanhGradient: of gelu's tanh form at `aux`, times the value.
enum class GemmActivation : uint8_t { None, GeluTanh, Relu, GeluTanhGradient };

// y[batch, m, n] = f(alpha * sum over k of a[batch, m, k] * b[batch, k, n], plus bias[n] and
// beta * residual[batch, m, n] where there are any). A stride of 0 repeats. Sums are in f32 (f64 for f64). The
// matrix `aux`, if any, is where gelu's operand is stored as well, or read by its gradient.
template <class Extent> struct GemmProblem {
  DType dtype = DType::F32; // of a, b, bias, residual and y
  struct Axis {
    Extent extent = {}, a = {}, b = {}, y = {}, residual = {}, aux = {}; // the strides in each matrix
  };
  std::vector<Axis> batch; // outermost first; may be empty
  Axis m, n, k;
  Extent biasStride = {}; // along n (0 or 1)
  GemmActivation activation = GemmActivation::None;
  double alpha = 1, beta = 1; // finite, not 0

  [[nodiscard]] GemmProblem<int64_t> bound(std::span<const int64_t> sizes) const {
    const auto axis = [&](const Axis& x) -> typename GemmProblem<int64_t>::Axis {
      return {x.extent(sizes), x.a(sizes), x.b(sizes), x.y(sizes), x.residual(sizes), x.aux(sizes)};
    };
    GemmProblem<int64_t> out{dtype,      {},    axis(m), axis(n), axis(k), biasStride(sizes),
                             activation, alpha, beta};
    for (const Axis& x : batch) out.batch.push_back(axis(x));
    return out;
  }
};

// The number of calls that cuBLASLt needs: a call has one batch axis, the innermost.
[[nodiscard]] inline int64_t libraryCalls(const GemmProblem<int64_t>& g) {
  int64_t calls = 1;
  for (size_t axis = 0; axis + 1 < g.batch.size(); ++axis) calls *= g.batch[axis].extent;
  return calls;
}

// A spatial dim of a convolution.
struct ConvSpatial {
  int64_t size = 1, length = 1, result = 1; // of image, window and result
  int64_t stride = 1, dilation = 1, low = 0;
};

// Which of a convolution's three tensors is computed from the other two.
enum class ConvKind : uint8_t { Forward, Image, Window };

// result[n, g o, p…] = sum over c and k of image[n, g c, stride p + dilation k - low, …] * window[g o, c, k, …],
// 0 outside of the image; or the gradient of that with respect to image or window. Sums are in f32 (f64 for
// f64).
template <class Extent> struct ConvProblem {
  ConvKind kind = ConvKind::Forward;
  DType dtype = DType::F32;         // of all tensors
  std::vector<ConvSpatial> spatial; // one to three
  int64_t groups = 1;
  Extent n = {}, c = {}, o = {}; // images, and the channels of a group

  [[nodiscard]] ConvProblem<int64_t> bound(std::span<const int64_t> sizes) const {
    return {kind, dtype, spatial, groups, n(sizes), c(sizes), o(sizes)};
  }
};

// y[b, h, i] = sum over j of softmax(scale q[b, h, i] k[b, h', j]) v[b, h', j], h' the key head that heads /
// keyHeads consecutive query heads share; or dq, dk and dv from q, k, v, y, lse and dy.
template <class Extent> struct AttentionProblem {
  bool gradient = false;
  DType dtype = DType::BF16; // of all except lse, which is f32
  double scale = 1;
  // Row i attends to keys i - before … i + after; kAll: no bound.
  static constexpr int64_t kAll = INT64_MAX;
  int64_t before = kAll, after = kAll;
  Extent batch = {}, heads = {}, keyHeads = {}, rows = {}, keys = {}, depth = {}, width = {};
  friend auto operator<=>(const AttentionProblem&, const AttentionProblem&) = default;

  [[nodiscard]] AttentionProblem<int64_t> bound(std::span<const int64_t> sizes) const {
    return {gradient,     dtype,           scale,       before,      after,        batch(sizes),
            heads(sizes), keyHeads(sizes), rows(sizes), keys(sizes), depth(sizes), width(sizes)};
  }
};

} // namespace dtc
