#pragma once
// Arithmetic on matrices as IR, once for real and complex ones: decompositions and gradients of
// factorizations, which run after complex numbers are gone.
#include "dtc/Ops/OpFunctions.h"
#include "linear_algebra/FactorParts.h"

namespace dtc {

// A tensor by its planes; im is invalid for a real one, and for complex elements that are not split.
struct PlaneMatrix {
  Expr re, im;
  [[nodiscard]] bool complex() const { return im.valid(); }
};

class PlaneMatrices {
public:
  explicit PlaneMatrices(Builder& b) : b(b) {}
  Builder& b;

  [[nodiscard]] static int64_t rank(const PlaneMatrix& x) { return static_cast<int64_t>(x.re.rank()); }
  [[nodiscard]] static int64_t rows(const PlaneMatrix& x) { return x.re.dims()[x.re.rank() - 2].value(); }
  [[nodiscard]] static int64_t columns(const PlaneMatrix& x) { return x.re.dims().back().value(); }

  // --- the library's layout, as one tensor ---
  [[nodiscard]] Expr packed(const PlaneMatrix& x, bool matrix = true);
  [[nodiscard]] PlaneMatrix unpacked(Expr v, bool complex, bool matrix = true);

  // --- plane by plane ---
  template <class F> PlaneMatrix each(const PlaneMatrix& x, F&& f) {
    const Expr re = f(x.re);
    return {re, x.complex() ? f(x.im) : Expr()};
  }
  [[nodiscard]] PlaneMatrix transposed(const PlaneMatrix& x);
  [[nodiscard]] PlaneMatrix conjugated(const PlaneMatrix& x);
  [[nodiscard]] PlaneMatrix adjoint(const PlaneMatrix& x) { return conjugated(transposed(x)); }
  [[nodiscard]] PlaneMatrix upper(const PlaneMatrix& x, int64_t diagonal = 0) {
    return each(x, [&](Expr v) { return triu(v, {.diagonal = diagonal}); });
  }
  [[nodiscard]] PlaneMatrix lower(const PlaneMatrix& x, int64_t diagonal = 0) {
    return each(x, [&](Expr v) { return tril(v, {.diagonal = diagonal}); });
  }
  [[nodiscard]] PlaneMatrix expanded(const PlaneMatrix& x, int64_t dim) {
    return each(x, [&](Expr v) { return expand_dims(v, {dim}); });
  }
  // Rows (or columns) [begin, end).
  [[nodiscard]] PlaneMatrix sliced(const PlaneMatrix& x, bool rows, int64_t begin, int64_t end);
  [[nodiscard]] PlaneMatrix joined(const PlaneMatrix& x, const PlaneMatrix& y, bool rows);
  // Further columns of zeros.
  [[nodiscard]] PlaneMatrix widened(const PlaneMatrix& x, int64_t columns);

  // --- arithmetic ---
  [[nodiscard]] PlaneMatrix sum(const PlaneMatrix& x, const PlaneMatrix& y) {
    const Expr re = x.re + y.re;
    return {re, x.complex() ? x.im + y.im : Expr()};
  }
  [[nodiscard]] PlaneMatrix difference(const PlaneMatrix& x, const PlaneMatrix& y) {
    const Expr re = x.re - y.re;
    return {re, x.complex() ? x.im - y.im : Expr()};
  }
  // By a real tensor that broadcasts.
  [[nodiscard]] PlaneMatrix scaled(const PlaneMatrix& x, Expr by) {
    return each(x, [&](Expr v) { return v * by; });
  }
  [[nodiscard]] PlaneMatrix over(const PlaneMatrix& x, Expr by) {
    return each(x, [&](Expr v) { return v / by; });
  }
  // Element by element, or of matrices; for elements the adjoint is the conjugate.
  enum class As : uint8_t { Is, Adjoint };
  [[nodiscard]] PlaneMatrix times(const PlaneMatrix& x, const PlaneMatrix& y, As left = As::Is,
                                  As right = As::Is);
  [[nodiscard]] PlaneMatrix quotient(const PlaneMatrix& x, const PlaneMatrix& y); // element by element
  [[nodiscard]] PlaneMatrix product(const PlaneMatrix& x, const PlaneMatrix& y, As left = As::Is,
                                    As right = As::Is);
  // The solution y of aᴴ y = x, or of y aᴴ = x.
  [[nodiscard]] PlaneMatrix solvedByAdjoint(const PlaneMatrix& a, const PlaneMatrix& x, bool left, bool lower,
                                            bool unit);
  // x - xᴴ
  [[nodiscard]] PlaneMatrix skew(const PlaneMatrix& x) { return difference(x, adjoint(x)); }

  // --- real tensors ---
  [[nodiscard]] Expr identity(int64_t n, DType);
  [[nodiscard]] Expr diagonal(Expr x);                                          // [.., n, n] -> [.., n]
  [[nodiscard]] static Expr asColumn(Expr v) { return expanded(v, v.rank()); }  // [.., n, 1]
  [[nodiscard]] static Expr asRow(Expr v) { return expanded(v, v.rank() - 1); } // [.., 1, n]
  [[nodiscard]] static Expr reciprocalOrZero(Expr x);                           // 0 for 0

private:
  static Expr expanded(Expr v, size_t dim) { return expand_dims(v, {static_cast<int64_t>(dim)}); }
};

// The solution y of op(a) y = x, or of y op(a) = x, row by row (LinearAlgebra.cpp).
[[nodiscard]] PlaneMatrix triangularSolution(PlaneMatrices& z, const TriangularSystem&, const PlaneMatrix& a,
                                             const PlaneMatrix& x);

} // namespace dtc
