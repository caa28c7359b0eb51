#include "dtc/Import/rows/Fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtc {
namespace {

using namespace ops;

constexpr int64_t kDirect = 64;   // up to this length by one product with the matrix of roots of unity
constexpr int64_t kLargest = 512; // and a length without divisors up to kDirect, up to this

// fn of both parts.
template <class F> ComplexParts each(ComplexParts z, F&& fn) {
  const Expr re = fn(z.re);
  return {re, z.im.valid() ? fn(z.im) : Expr()};
}

// (a + ib)(p + iq), elementwise or as matrix products.
template <class Mul> ComplexParts times(ComplexParts z, ComplexParts w, Mul&& mul) {
  const Expr re = mul(z.re, w.re), im = mul(z.re, w.im);
  if (!z.im.valid()) return {re, im};
  const Expr both = mul(z.im, w.im), other = mul(z.im, w.re);
  return {re - both, im + other};
}
ComplexParts times(ComplexParts z, ComplexParts w) {
  return times(z, w, [](Expr a, Expr b) { return a * b; });
}

class Transform {
public:
  Transform(Builder& b, DType part, bool inverse) : b_(b), part_(part), sign_(inverse ? 1 : -1) {}

  // Along the last dim; the rank is 2 or more, for matrix products.
  [[nodiscard]] ComplexParts last(ComplexParts z) {
    const int64_t n = staticDims(b_, {z.re.dims().back()})[0];
    if (n <= 1) return z;
    if (n <= kDirect) return product(z, n);
    int64_t outer = kDirect;
    while (n % outer != 0) --outer;
    if (outer > 1) return mixed(z, outer, n / outer);
    return n <= kLargest ? product(z, n) : convolved(z, n);
  }

private:
  // exp(± 2πi k / n)
  ComplexParts roots(Expr k, int64_t n) const {
    const Expr angle = k.as(DType::F64) * (sign_ * 2 * std::numbers::pi / static_cast<double>(n));
    const Expr re = ops::cos(angle).as(part_);
    return {re, ops::sin(angle).as(part_)};
  }
  // exp(± 2πi j k / n) for j in rows, k in columns; the product is reduced in integers: angles are exact.
  [[nodiscard]] ComplexParts matrix(int64_t rows, int64_t columns, int64_t n) const {
    if (rows * columns <= kDirect * kDirect) return literal(rows, columns, n);
    const TypeId type = checkedType(b_, DType::I64, {rows, columns});
    const Expr j = iota(b_, type, {.dim = 0}), k = iota(b_, type, {.dim = 1});
    return roots((j * k) % n, n);
  }
  [[nodiscard]] ComplexParts literal(int64_t rows, int64_t columns, int64_t n) const {
    Tensor re(part_, {rows, columns}), im(part_, {rows, columns});
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t k = 0; k < columns; ++k) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        re.setFloat(j * columns + k, std::cos(angle));
        im.setFloat(j * columns + k, sign_ * std::sin(angle));
      }
    const Expr first = constantOf(b_, re);
    return {first, constantOf(b_, im)};
  }
  [[nodiscard]] ComplexParts product(ComplexParts z, int64_t n) const {
    return times(z, matrix(n, n, n), [](Expr x, Expr m) { return matmul(x, m); });
  }

  // J. Cooley and J. Tukey, 1965: with j = j1 b + j2 and k = k1 + a k2, transforms of length a, then factors
  // exp(2πi j2 k1 / n), then transforms of length b.
  [[nodiscard]] ComplexParts mixed(ComplexParts z, int64_t a, int64_t b) {
    const Dims shape = z.re.dims();
    Dims parts(shape.begin(), shape.end() - 1);
    parts.insert(parts.end(), {a, b});
    const auto rank = static_cast<int64_t>(parts.size());
    const auto turned = [&](Expr x) { return swapped(x, rank - 2, rank - 1); };
    ComplexParts y = last(each(z, [&](Expr x) { return turned(reshapeTo(x, parts)); })); // [.., j2, k1]
    y = times(y, matrix(b, a, a * b));
    y = last(each(y, turned)); // [.., k1, k2]
    return each(y, [&](Expr x) { return reshapeTo(turned(x), shape); });
  }

  // L. Bluestein, 1970: 2jk = j² + k² - (k - j)², so that the transform is a convolution with
  // exp(∓ πi m² / n), between two products. It is circular, of a length that is a power of 2.
  [[nodiscard]] ComplexParts convolved(ComplexParts z, int64_t n) {
    int64_t length = 1;
    while (length < 2 * n - 1) length *= 2;
    const Expr k = counted(b_, n, DType::I64);
    const ComplexParts chirp = roots((k * k) % (2 * n), 2 * n);
    const ComplexParts filled = each(times(z, chirp), [&](Expr x) { return padded(x, length - n); });

    const TypeId row = checkedType(b_, DType::I64, {1, length});
    const Expr at = iota(b_, row, {.dim = 1}), distance = ops::min(at, length - at);
    const ComplexParts all = roots((distance * distance) % (2 * n), 2 * n);
    const Expr used = distance < n, re = select(used, all.re, 0.0), im = select(used, -all.im, 0.0);

    Transform forward(b_, part_, false), back(b_, part_, true);
    const ComplexParts own = forward.last(filled), kernel = forward.last({re, im});
    const ComplexParts y = back.last(times(own, kernel));
    const auto dim = static_cast<int64_t>(y.re.rank()) - 1;
    const ComplexParts first =
        each(y, [&](Expr x) { return sliceOf(x, dim, 0, n) / static_cast<double>(length); });
    return times(first, chirp);
  }
  static Expr padded(Expr x, int64_t by) {
    std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
    high.back() = by;
    return ops::pad(x, {.value = x.literal(0.0), .low = low, .high = high});
  }

  Builder& b_;
  DType part_;
  double sign_;
};

ComplexParts partsOf(Expr z) {
  if (!isComplex(z.dtype())) return {z, Expr()};
  const Expr re = ops::real(z);
  return {re, ops::imag(z)};
}

} // namespace

ComplexParts fourierTransform(ComplexParts z, int64_t dim, bool inverse, double scale) {
  const auto end = static_cast<int64_t>(z.re.rank()) - 1;
  const bool alone = end == 0;
  ComplexParts y = each(z, [&](Expr x) { return alone ? withDim(x, 0) : moved(x, dim, end); });
  y = Transform(z.re.builder(), z.re.dtype(), inverse).last(y);
  return each(y, [&](Expr x) {
    const Expr back = alone ? withoutDim(x, 0) : moved(x, end, dim);
    return scale == 1 ? back : back * scale;
  });
}

Expr fourierTransform(Expr z, int64_t dim, bool inverse, double scale) {
  const ComplexParts y = fourierTransform(partsOf(z), dim, inverse, scale);
  return ops::complex(y.re, y.im.valid() ? y.im : filled(z.builder(), y.re.dtype(), y.re.dims(), 0));
}

ComplexParts wholeSpectrum(ComplexParts half, int64_t dim, int64_t n) {
  const int64_t rest = n - (n / 2 + 1);
  if (rest <= 0) return each(half, [&](Expr x) { return sliceOf(x, dim, 0, n); });
  const auto joined = [&](Expr x, bool negated) {
    const Expr mirrored = ops::flip(sliceOf(x, dim, 1, rest + 1), std::vector<int64_t>{dim});
    return concatOf(x.builder(), {x, negated ? -mirrored : mirrored}, dim);
  };
  const Expr re = joined(half.re, false);
  return {re, half.im.valid() ? joined(half.im, true) : Expr()};
}

} // namespace dtc
