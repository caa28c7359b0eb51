#include "dtc/Import/rows/Composites.h"

#include <algorithm>
#include <numbers>

namespace dtc {
namespace {

using namespace ops;

constexpr int64_t kMaxTransform = 32768; // products of two indices are i32

} // namespace

Expr fourierTransform(Expr z, int64_t dim, bool inverse, double scale) {
  Builder& b = z.builder();
  const int64_t n = staticDims(b, {z.dims().at(static_cast<size_t>(dim))})[0];
  if (n > kMaxTransform) b.mismatch("a Fourier transform of more than 32768 elements");
  const Expr i = counted(b, n), rowsOf = reshapeTo(i, {n, 1});
  const Expr turns = (rowsOf * i) % n;
  const Expr angle = turns.as(DType::F64) * ((inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(n));
  const DType part = partType(z.dtype());
  const Expr re = (ops::cos(angle) * scale).as(part), im = (ops::sin(angle) * scale).as(part);
  const auto last = static_cast<int64_t>(z.rank()) - 1;
  const Expr y = moved(z, dim, last);
  const Expr matrix = ops::complex(re, im);
  const Expr flat = reshapeTo(y, {elementsOf(b, Dims(y.dims().begin(), y.dims().end() - 1)), n});
  return moved(reshapeTo(ops::matmul(flat, matrix), y.dims()), last, dim);
}

} // namespace dtc
