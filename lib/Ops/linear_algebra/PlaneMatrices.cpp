#include "linear_algebra/PlaneMatrices.h"
#include <numeric>

namespace dtc {

Expr PlaneMatrices::packed(const PlaneMatrix& given, bool matrix) {
  const PlaneMatrix x = matrix ? transposed(given) : given;
  if (!x.complex()) return x.re;
  const Expr re = asColumn(x.re), im = asColumn(x.im);
  return ops::concat(b, {re, im}, rank(x));
}

PlaneMatrix PlaneMatrices::unpacked(Expr v, bool complex, bool matrix) {
  PlaneMatrix x{v, {}};
  if (complex) {
    const int64_t last = rank(x) - 1;
    const auto plane = [&](int64_t i) {
      std::vector<Dim> limit = v.dims();
      std::vector<int64_t> start(limit.size());
      start.back() = i, limit.back() = Dim(i + 1);
      return squeeze(slice(v, {.start = start, .limit = limit}), {last});
    };
    const Expr re = plane(0), im = plane(1);
    x = {re, im};
  }
  return matrix ? transposed(x) : x;
}

PlaneMatrix PlaneMatrices::transposed(const PlaneMatrix& x) {
  std::vector<int64_t> perm(static_cast<size_t>(rank(x)));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return each(x, [&](Expr v) { return transpose(v, perm); });
}

PlaneMatrix PlaneMatrices::conjugated(const PlaneMatrix& x) {
  if (isComplex(x.re.dtype())) return {conj(x.re), {}};
  return {x.re, x.complex() ? -x.im : Expr()};
}

PlaneMatrix PlaneMatrices::sliced(const PlaneMatrix& x, bool rows, int64_t begin, int64_t end) {
  const size_t dim = x.re.rank() - (rows ? 2 : 1);
  std::vector<Dim> limit = x.re.dims();
  if (begin == 0 && limit[dim] == Dim(end)) return x;
  std::vector<int64_t> start(limit.size());
  start[dim] = begin, limit[dim] = Dim(end);
  return each(x, [&](Expr v) { return slice(v, {.start = start, .limit = limit}); });
}

PlaneMatrix PlaneMatrices::joined(const PlaneMatrix& x, const PlaneMatrix& y, bool rows) {
  const auto join = [&](Expr v, Expr w) { return ops::concat(b, {v, w}, rank(x) - (rows ? 2 : 1)); };
  const Expr re = join(x.re, y.re);
  return {re, x.complex() ? join(x.im, y.im) : Expr()};
}

PlaneMatrix PlaneMatrices::widened(const PlaneMatrix& x, int64_t to) {
  if (columns(x) == to) return x;
  std::vector<int64_t> low(static_cast<size_t>(rank(x))), high = low;
  high.back() = to - columns(x);
  return each(x, [&](Expr v) { return pad(v, {.value = 0, .low = low, .high = high}); });
}

// The product of complex numbers, by products of planes.
template <class Product>
static PlaneMatrix complexProduct(const PlaneMatrix& x, const PlaneMatrix& y, bool l, bool r,
                                  Product&& product) {
  if (!x.complex()) return {product(x.re, y.re), {}};
  // The adjoint's imaginary part is negated.
  const Expr first = product(x.re, y.im), second = product(x.im, y.re);
  const Expr im = l == r ? first + second : l ? first - second : second - first;
  const Expr same = product(x.re, y.re), squares = product(x.im, y.im);
  const Expr re = l == r ? same - squares : same + squares;
  return {re, l && r ? -im : im};
}

PlaneMatrix PlaneMatrices::times(const PlaneMatrix& x, const PlaneMatrix& y, As left, As right) {
  return complexProduct(x, y, left == As::Adjoint, right == As::Adjoint,
                        [](Expr v, Expr w) { return v * w; });
}

PlaneMatrix PlaneMatrices::quotient(const PlaneMatrix& x, const PlaneMatrix& y) {
  if (!x.complex()) return over(x, y.re);
  const Expr square = y.re * y.re, size = square + y.im * y.im;
  return over(times(x, y, As::Is, As::Adjoint), size);
}

PlaneMatrix PlaneMatrices::product(const PlaneMatrix& x, const PlaneMatrix& y, As left, As right) {
  const bool l = left == As::Adjoint, r = right == As::Adjoint;
  return complexProduct(x, y, l, r,
                        [&](Expr v, Expr w) { return matmul(v, w, {.transpose_a = l, .transpose_b = r}); });
}

PlaneMatrix PlaneMatrices::solvedByAdjoint(const PlaneMatrix& a, const PlaneMatrix& x, bool left, bool lower,
                                           bool unit) {
  if (a.complex()) return triangularSolution(*this, {left, lower, unit, true}, {a.re, -a.im}, x);
  return {triangular_solve(a.re, x.re,
                           {.left_side = left, .lower = lower, .unit_diagonal = unit, .transpose_a = true}),
          {}};
}

Expr PlaneMatrices::identity(int64_t n, DType dtype) {
  return ops::eye(b, b.module.tensorType(dtype, std::array{Dim(n), Dim(n)}));
}

Expr PlaneMatrices::diagonal(Expr x) {
  const Expr masked = x * identity(x.dims().back().value(), x.dtype());
  return ops::sum(masked, {.dims = {static_cast<int64_t>(x.rank()) - 1}});
}

Expr PlaneMatrices::reciprocalOrZero(Expr x) {
  const Expr zero = eq(x, 0);
  return select(zero, 0, reciprocal(select(zero, 1, x)));
}

} // namespace dtc
