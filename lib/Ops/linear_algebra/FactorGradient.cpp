// Gradients of factorizations, of real and of complex matrices: M. Giles, "Collected matrix derivative results
// for forward and reverse mode algorithmic differentiation", 2008; J. Townsend, "Differentiating the singular
// value decomposition", 2016; for complex numbers, and matrices that are not square, as in PyTorch's
// FunctionsManual.cpp (lu_factor_ex_backward, linalg_qr_backward, linalg_eig_backward, svd_backward). A
// gradient g pairs with a change d as the real part of the trace of gᴴ d.
#include "linear_algebra/PlaneMatrices.h"

namespace dtc {

namespace {

using As = PlaneMatrices::As;

// Matrices of one factorization and their gradients.
class FactorGradients {
public:
  explicit FactorGradients(Builder& b) : z(b) {}
  PlaneMatrices z;

  // P A = L U. With A = [A1 A2] or its rows, where L1 U1 = P A1 is square, the rest is a triangular solve.
  PlaneMatrix lu(const PlaneMatrix& lu, Expr permutation, const PlaneMatrix& g) {
    const int64_t m = z.rows(lu), n = z.columns(lu), k = std::min(m, n);
    const bool wide = n > m;
    const PlaneMatrix square = z.sliced(lu, !wide, 0, k);
    const PlaneMatrix l = withUnitDiagonal(z.lower(square, -1)), u = z.upper(square);
    PlaneMatrix gl = z.lower(z.sliced(g, !wide, 0, k), -1), gu = z.upper(z.sliced(g, !wide, 0, k)), rest;
    if (wide) {
      rest = z.solvedByAdjoint(l, z.sliced(g, false, k, n), true, true, true);
      gl = z.difference(gl, z.product(rest, z.sliced(lu, false, k, n), As::Is, As::Adjoint));
    } else if (m > n) {
      rest = z.solvedByAdjoint(u, z.sliced(g, true, k, m), false, false, false);
      gu = z.difference(gu, z.product(z.sliced(lu, true, k, m), rest, As::Adjoint));
    }
    const PlaneMatrix phi =
        z.sum(z.lower(z.product(l, gl, As::Adjoint), -1), z.upper(z.product(gu, u, As::Is, As::Adjoint)));
    PlaneMatrix out = z.solvedByAdjoint(u, z.solvedByAdjoint(l, phi, true, true, true), false, false, false);
    if (rest.re.valid()) out = z.joined(out, rest, !wide);
    return rowsFrom(out, permutation);
  }

  PlaneMatrix qr(const PlaneMatrix& q, const PlaneMatrix& r, PlaneMatrix gq, const PlaneMatrix& gr,
                 const PlaneMatrix& x) {
    const int64_t m = z.rows(x), n = z.columns(x);
    const PlaneMatrix r1 = z.sliced(r, false, 0, std::min(m, n)),
                      gr1 = z.sliced(gr, false, 0, std::min(m, n));
    PlaneMatrix rest;
    if (n > m) { // R2 = Qᴴ A2
      const PlaneMatrix gr2 = z.sliced(gr, false, m, n);
      rest = z.product(q, gr2);
      gq = z.sum(gq, z.product(z.sliced(x, false, m, n), gr2, As::Is, As::Adjoint));
    }
    const PlaneMatrix inner =
        z.upper(z.difference(z.product(gr1, r1, As::Is, As::Adjoint), z.product(q, gq, As::Adjoint)));
    const PlaneMatrix both = z.sum(inner, z.adjoint(inner));
    const Expr half = 1 - z.identity(z.columns(both), both.re.dtype()) * 0.5;
    const PlaneMatrix out =
        z.solvedByAdjoint(r1, z.sum(gq, z.product(q, z.scaled(both, half))), false, false, false);
    return rest.re.valid() ? z.joined(out, rest, false) : out;
  }

  // Only one triangle is read; pairs of equal eigenvalues are left out.
  PlaneMatrix eigh(Expr values, const PlaneMatrix& v, Expr gValues, const PlaneMatrix& gv, bool lower) {
    const Expr row = z.asRow(values), gaps = row - z.asColumn(values);
    PlaneMatrix inner = z.scaled(z.product(v, gv, As::Adjoint), z.reciprocalOrZero(gaps));
    inner.re = inner.re + onDiagonal(gValues);
    const PlaneMatrix g = z.product(z.product(v, inner), v, As::Is, As::Adjoint),
                      both = z.sum(g, z.adjoint(g));
    const Expr own = onDiagonal(z.diagonal(g.re));
    PlaneMatrix out = lower ? z.lower(both, -1) : z.upper(both, 1);
    out.re = out.re + own;
    return out;
  }

  PlaneMatrix svd(Expr s, const PlaneMatrix& u, const PlaneMatrix& vh, Expr gs, const PlaneMatrix& gu,
                  const PlaneMatrix& gvh) {
    const Expr row = z.asRow(s), column = z.asColumn(s), inverse = z.reciprocalOrZero(s);
    const Expr difference = row - column, e = z.reciprocalOrZero(difference * (row + column));
    const PlaneMatrix uu = z.product(u, gu, As::Adjoint), vv = z.product(vh, gvh, As::Is, As::Adjoint);
    PlaneMatrix inner =
        z.sum(z.scaled(z.scaled(z.skew(uu), e), row), z.scaled(z.scaled(z.skew(vv), e), column));
    inner.re = inner.re + onDiagonal(gs);
    if (u.complex()) inner.im = inner.im + onDiagonal(z.diagonal(uu.im) * inverse);
    PlaneMatrix out = z.product(z.product(u, inner), vh);
    if (z.rows(u) > z.columns(u)) { // (1 - U Uᴴ) gU S⁻¹ Vᴴ
      const PlaneMatrix rest = z.difference(gu, z.product(u, uu));
      out = z.sum(out, z.product(z.scaled(rest, z.asRow(inverse)), vh));
    }
    if (z.columns(vh) > z.rows(vh)) { // U S⁻¹ gVᴴ (1 - V Vᴴ)
      const PlaneMatrix rest = z.difference(gvh, z.product(z.product(gvh, vh, As::Is, As::Adjoint), vh));
      out = z.sum(out, z.product(u, z.scaled(rest, z.asColumn(inverse))));
    }
    return out;
  }

private:
  PlaneMatrix withUnitDiagonal(const PlaneMatrix& l) {
    return {l.re + z.identity(z.columns(l), l.re.dtype()), l.im};
  }
  Expr onDiagonal(Expr v) { // [.., n] -> [.., n, n]
    const Expr column = z.asColumn(v);
    return column * z.identity(v.dims().back().value(), v.dtype());
  }
  // y with y[permutation[i]] = x[i].
  PlaneMatrix rowsFrom(const PlaneMatrix& x, Expr permutation) {
    const int64_t dim = z.rank(x) - 2;
    const Expr inverse = z.asColumn(argsort(permutation, {.dim = dim}));
    const Expr indices = broadcast(inverse, x.re.dims());
    return z.each(x, [&](Expr v) { return gather(v, indices, {.dim = dim}); });
  }
};

} // namespace

bool factorGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, b.diags);
  const FactorLayout layout(q);
  FactorGradients f(b);
  PlaneMatrices& z = f.z;
  const std::string_view name = q.record->name;
  const auto matrix = [&](ValueId v) {
    return layout.library ? z.unpacked(Expr(b, v), layout.planes) : PlaneMatrix{Expr(b, v), {}};
  };
  const auto result = [&](size_t r) { return matrix(m.result(op, r)); };
  if (name != "lu" && name != "eigh" && q.boolAttr("full_matrices")) return false;
  if (!staticMatrices(q)) return false;
  if (factorShapeOf(q)->count() == 0) {
    dx.push_back(b.constant(0, q.operandTypes[0]));
    return true;
  }
  PlaneMatrix g;
  if (name == "lu")
    g = f.lu(result(0), Expr(b, m.result(op, 2)), matrix(dy[0]));
  else if (name == "qr")
    g = f.qr(result(0), result(1), matrix(dy[0]), matrix(dy[1]), matrix(m.operand(op, 0)));
  else if (name == "eigh")
    g = f.eigh(Expr(b, m.result(op, 0)), result(1), Expr(b, dy[0]), matrix(dy[1]), q.boolAttr("lower"));
  else
    g = f.svd(Expr(b, m.result(op, 0)), result(1), result(2), Expr(b, dy[0]), matrix(dy[1]), matrix(dy[2]));
  dx.push_back(layout.library ? z.packed(g) : g.re);
  return true;
}

} // namespace dtc
