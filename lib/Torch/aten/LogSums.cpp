// Sums of exponentials in the log domain; those of complex numbers, which no op of dtc takes, are PyTorch's in value
// and branch.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::logsums {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A complex number of these parts in every element.
Expr filledComplex(Expr like, double re, double im) {
  const DType part = partType(like.dtype());
  return ops::complex(filled(like.builder(), part, like.dims(), re),
                      filled(like.builder(), part, like.dims(), im));
}

Expr isNan(Expr z) { return ops::is_nan(ops::real(z)) | ops::is_nan(ops::imag(z)); }

// log(exp(a) + exp(b)), by the larger real part. A NaN in one part is NaN in both.
Expr complexLogAddExp(Expr a, Expr b) {
  const Expr swapped = ops::real(a) < ops::real(b);
  const Expr low = ops::select(swapped, a, b), high = ops::select(swapped, b, a);
  const Expr size = ops::real(high);
  const Expr same = ops::eq(ops::real(low), size) & ops::is_inf(size); // whose difference is NaN
  const Expr difference = ops::select(same, filledComplex(a, 0, 0), low - high);
  const Expr sum = high + ops::log1p(ops::exp(difference));
  const Expr limit = ops::select(size < 0.0, low, ops::log(ops::exp(a) + ops::exp(b)));
  const Expr nan = filledComplex(a, std::nan(""), std::nan(""));
  return ops::select(isNan(a) | isNan(b), nan, ops::select(same, limit, sum));
}

ImportResults logaddexp(ImportContext& c) {
  const bool two = c.node.target.find("logaddexp2") != std::string::npos;
  const Expr a = tensorOf(in(c, "self")), b = tensorOf(in(c, "other"));
  if (isComplex(a.dtype()) && !two)
    return complexLogAddExp(broadcastTo(a, resultDims(c)), broadcastTo(b, resultDims(c)));
  const Expr high = ops::max(a, b), low = ops::min(a, b);
  const Expr difference = low - high;
  const Expr tail =
      two ? ops::log1p(ops::exp2(difference)) / std::numbers::ln2 : ops::log1p(ops::exp(difference));
  // Of equal infinities the difference is NaN.
  const Expr same = ops::eq(low, high) & ops::is_inf(high);
  return ops::select(same, high, high + tail);
}

// By the largest real part.
Expr complexLogSumExp(Expr z, const std::vector<int64_t>& dims, bool keep) {
  const Expr largest = ops::max(ops::real(z), ops::MaxArgs{.dims = dims, .keepdim = true});
  const Expr finite = ops::select(ops::is_inf(largest), 0.0, largest);
  const Expr sum = ops::log(ops::sum(ops::exp(z - finite.as(z.dtype())), {.dims = dims, .keepdim = keep}));
  return sum + reshapeTo(finite, sum.dims()).as(z.dtype());
}

ImportResults logsumexp(ImportContext& c) {
  const Expr x = in(c, "self");
  const std::vector<int64_t> d = aten::dims(c, "dim", x.rank());
  const bool keep = c.flag("keepdim", false);
  if (d.empty() && isComplex(x.dtype())) // the branch of the logarithm
    return reshapeTo(complexLogSumExp(reshapeTo(x, {1}), {0}, keep), resultDims(c));
  if (d.empty()) return x;
  return isComplex(x.dtype()) ? complexLogSumExp(x, d, keep)
                              : ops::logsumexp(x, {.dims = d, .keepdim = keep});
}

// A loop, whose sums have the branches of PyTorch's.
Expr complexLogCumSumExp(Expr z, int64_t d) {
  Builder& b = z.builder();
  const Expr first = moved(z, d, 0);
  Dims one = first.dims();
  const int64_t n = staticDims(b, {one.at(0)})[0];
  if (n == 0) return z;
  one.at(0) = 1;
  const Expr start = filledComplex(withoutDim(sliceOf(first, 0, 0, 1), 0), -kInfinity, 0);
  const std::vector<ValueId> starts{start};
  const std::vector<Expr> out = ops::forLoop(
      b, int64_t(0), n, ops::Values(starts), [&](Builder& in, Expr i, std::span<const ValueId> carried) {
        std::vector<ops::Arg> at(one.size(), int64_t(0));
        at.at(0) = i;
        const Expr element = withoutDim(ops::dynamic_slice(Expr(in, first), at, one), 0);
        const ValueId sum = complexLogAddExp(element, Expr(in, carried[0]));
        return std::vector<ValueId>{sum, sum};
      });
  return moved(out.at(1), 0, d);
}

ImportResults logcumsumexp(ImportContext& c) {
  const Expr x = in(c, "self");
  if (x.rank() == 0) return x;
  const int64_t d = aten::dim(c, "dim", x.rank());
  return isComplex(x.dtype()) ? complexLogCumSumExp(x, d) : ops::logcumsumexp(x, {.dim = d});
}

const ImportRow kRows[] = {
    {"aten.logaddexp", logaddexp},         {"aten.logaddexp2", logaddexp},      {"aten.logsumexp", logsumexp},
    {"aten.special_logsumexp", logsumexp}, {"aten.logcumsumexp", logcumsumexp},
};

} // namespace
} // namespace aten::logsums

ImportRows torchLogSumRows() { return aten::logsums::kRows; }

} // namespace dtc
