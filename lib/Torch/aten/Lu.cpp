// LU, and what follows from it: solutions, inverses and determinants.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <algorithm>
#include <limits>

namespace dtc {
namespace aten::linalg {
namespace {

// Rows of b in the order of `permutation`.
Expr permutedRows(Expr b, Expr permutation) {
  const Expr index = broadcastTo(withDim(permutation, columns(b)), b.dims());
  return ops::gather(b, index, {.dim = rows(b)});
}

// x with A x = b, or with the adjoint of A.
Expr luSolved(Expr lu, Expr permutation, Expr b, bool ofAdjoint = false) {
  if (rowCount(lu) == Dim(0) || columnCount(b) == Dim(0)) return b;
  if (ofAdjoint) {
    const Expr f = isComplex(lu.dtype()) ? ops::conj(lu) : lu;
    const Expr y = ops::triangular_solve(f, b, {.lower = false, .transpose_a = true});
    const Expr z = ops::triangular_solve(f, y, {.lower = true, .unit_diagonal = true, .transpose_a = true});
    return permutedRows(z, ops::argsort(permutation, {.dim = static_cast<int64_t>(permutation.rank()) - 1}));
  }
  const Expr y =
      ops::triangular_solve(lu, permutedRows(b, permutation), {.lower = true, .unit_diagonal = true});
  return ops::triangular_solve(lu, y, {.lower = false});
}

} // namespace

Expr solved(ImportContext& c, Expr a, Expr b) {
  const Dims batch = broadcastDims(c.b, batchOf(a), batchOf(b));
  a = withBatch(c.b, a, batch), b = withBatch(c.b, b, batch);
  const auto f = ops::lu(a);
  return luSolved(f[0], f[2], b);
}

Expr inverted(ImportContext& c, Expr a) {
  return solved(c, a, identity(c.b, a.dtype(), rowCount(a), batchOf(a)));
}

namespace {

// The matrix that PyTorch factorizes for determinants, where it returns the factors: the transpose of a real
// row-major one. The backward graph solves with the one or the other.
Expr factorized(const ImportContext& c, Expr a) {
  return isRowMajor(c, "A") && !isComplex(a.dtype()) ? transposed(a) : a;
}

ImportResults inverse(ImportContext& c) {
  const Expr a = matrixOf(c), y = inverted(c, a);
  if (c.node.results.size() < 2) return y;
  return {y, noInfo(c, batchOf(a))};
}

ImportResults solve(ImportContext& c) {
  const Expr a = c.tensor("A"), given = c.tensor("B");
  const bool vector = given.rank() == 1 || (given.rank() == a.rank() - 1 &&
                                            given.dims() == Dims(a.dims().begin(), a.dims().end() - 1));
  const bool left = c.flag("left", true);
  const Expr b = vector ? withDim(given, static_cast<int64_t>(given.rank()))
                 : left ? given
                        : transposed(given);
  Expr x = solved(c, left || vector ? a : transposed(a), b);
  x = vector ? withoutDim(x, columns(x)) : left ? x : transposed(x);
  std::vector<Expr> out{x}; // and LU, pivots, info of the forms with more results
  if (c.node.results.size() == 2) out.push_back(noInfo(c, batchOf(a)));
  if (c.node.results.size() > 2) {
    const auto f = ops::lu(a);
    out.insert(out.end(), {f[0], f[1] + 1, f[3]});
  }
  return out;
}

// LU, pivots counted from 1, info.
ImportResults luFactor(ImportContext& c) {
  const Expr a = matrixOf(c);
  if (!c.flag("pivot", true)) c.fail("factorizes without pivoting");
  const auto f = ops::lu(a);
  return {f[0], f[1] + 1, f[3]};
}

struct Parts {
  Expr p, l, u;
};

Parts unpacked(ImportContext& c, Expr lu, Expr permutation) {
  const int64_t m = staticDims(c.b, {rowCount(lu)})[0], n = staticDims(c.b, {columnCount(lu)})[0],
                k = std::min(m, n);
  const Expr lower = sliceOf(ops::tril(lu, {.diagonal = -1}), columns(lu), 0, k);
  const Expr ones = eye(c.b, lu.dtype(), {m, k});
  const Expr upper = sliceOf(ops::triu(lu), rows(lu), 0, k);
  const Expr p =
      transposed(ops::one_hot(permutation, {.depth = m, .dtype = partType(lu.dtype())})).as(lu.dtype());
  return {p, lower + broadcastTo(ones, lower.dims()), upper};
}

ImportResults lu(ImportContext& c) {
  if (!c.flag("pivot", true)) c.fail("factorizes without pivoting");
  const auto f = ops::lu(matrixOf(c));
  const Parts p = unpacked(c, f[0], f[2]);
  return {p.p, p.l, p.u};
}

// The permutation that swaps of rows make: row k with row pivots[k] (from 0).
Expr permutationOf(ImportContext& c, Expr pivots, int64_t m) {
  Dims dims = pivots.dims();
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  const int64_t k = staticDims(c.b, {dims.back()})[0];
  dims.back() = m;
  const Expr start = ops::iota(c.b, checkedType(c.b, DType::I32, dims), {.dim = last});
  if (k == 0) return start;
  return ops::forLoop(c.b, int64_t(0), k, {start},
                      [&](Builder& in, Expr i, std::span<const ValueId> carried) {
                        const Expr p(in, carried[0]), all(in, pivots);
                        const Expr place = ops::iota(in, checkedType(in, DType::I32, dims), {.dim = last});
                        std::vector<ops::Arg> at(dims.size(), ops::Arg(int64_t(0)));
                        at.back() = i;
                        Dims one = all.dims();
                        one.back() = 1;
                        const Expr j = ops::dynamic_slice(all, at, one);
                        const std::vector<int64_t> over{last};
                        const Expr here = ops::eq(place, i), there = ops::eq(place, j);
                        const Expr a = ops::sum(ops::select(here, p, 0), {.dims = over, .keepdim = true});
                        const Expr b = ops::sum(ops::select(there, p, 0), {.dims = over, .keepdim = true});
                        const Expr second = ops::select(there, broadcastTo(a, dims), p);
                        return std::vector<ValueId>{ops::select(here, broadcastTo(b, dims), second)};
                      })[0];
}

ImportResults luUnpack(ImportContext& c) {
  const Expr lu = c.tensor("LU_data");
  const Expr pivots = c.tensor("LU_pivots").as(DType::I32) - 1;
  const Parts p = unpacked(c, lu, permutationOf(c, pivots, staticDims(c.b, {rowCount(lu)})[0]));
  const Expr none = filled(c.b, lu.dtype(), {Dim(0)}, 0);
  const bool data = c.flag("unpack_data", true);
  return {c.flag("unpack_pivots", true) ? p.p : none, data ? p.l : none, data ? p.u : none};
}

ImportResults luSolve(ImportContext& c) {
  const bool old = c.has("LU_data");
  Expr lu = c.tensor(old ? "LU_data" : "LU"), b = c.tensor(old ? "self" : "B");
  Expr pivots = c.tensor(old ? "LU_pivots" : "pivots").as(DType::I32) - 1;
  // X A = B is A* X* = B*.
  const bool left = c.flag("left", true), ofAdjoint = c.flag("adjoint", false) == left;
  if (!left) b = adjoint(b);
  Expr permutation = permutationOf(c, pivots, staticDims(c.b, {rowCount(lu)})[0]);
  const Dims batch = broadcastDims(c.b, batchOf(lu), batchOf(b));
  lu = withBatch(c.b, lu, batch), b = withBatch(c.b, b, batch);
  Dims order = batch;
  order.push_back(rowCount(lu));
  const Expr x = luSolved(lu, broadcastTo(permutation, order), b, ofAdjoint);
  return left ? x : adjoint(x);
}

struct Determinant {
  Expr sign, logarithm, value;
  Expr lu, pivots;
};

Determinant determinant(ImportContext& c) {
  const Expr given = matrixOf(c), a = c.node.results.size() > 1 ? factorized(c, given) : given;
  const auto f = ops::lu(a);
  const int64_t n = staticDims(c.b, {rowCount(a)})[0];
  Dims flat = batchOf(a);
  flat.emplace_back(n * n);
  if (n == 0) {
    const Expr one = filled(c.b, a.dtype(), batchOf(a), 1),
               zero = filled(c.b, partType(a.dtype()), batchOf(a), 0);
    return {one, zero, one, f[0], f[1]};
  }
  const auto last = static_cast<int64_t>(flat.size()) - 1;
  const Expr diagonal = sliceOf(reshapeTo(f[0], flat), last, 0, n * n, n + 1);
  const std::vector<int64_t> over{last};
  const Expr place = ops::iota(c.b, checkedType(c.b, DType::I32, f[1].dims()), {.dim = last});
  const Expr swaps = ops::sum(ops::ne(f[1], place).as(DType::I32), {.dims = over});
  const Expr odd = ops::eq(swaps % 2, 1);
  const Expr parity = ops::select(odd, filled(c.b, a.dtype(), batchOf(a), -1), 1.0);
  Determinant d;
  d.value = ops::prod(diagonal, {.dims = over}) * parity;
  d.lu = f[0], d.pivots = f[1];
  const Expr sizes = ops::abs(diagonal);
  d.logarithm = ops::sum(ops::log(sizes), {.dims = over});
  const bool complex = isComplex(a.dtype());
  const Expr signs =
      complex ? diagonal / ops::select(ops::eq(sizes, 0.0), 1.0, sizes).as(a.dtype()) : ops::sign(diagonal);
  d.sign = ops::prod(signs, {.dims = over}) * parity;
  return d;
}

ImportResults det(ImportContext& c) {
  const Determinant d = determinant(c);
  if (c.node.results.size() < 2) return d.value;
  return {d.value, d.lu, d.pivots + 1};
}

ImportResults slogdet(ImportContext& c) {
  const Determinant d = determinant(c);
  return {d.sign, d.logarithm, d.lu, d.pivots + 1};
}

ImportResults logdet(ImportContext& c) {
  const Determinant d = determinant(c);
  if (isComplex(d.sign.dtype())) {
    const Expr y = ops::imag(d.sign);
    return ops::complex(d.logarithm, ops::atan2(y, ops::real(d.sign)));
  }
  return ops::select(d.sign < 0.0, std::numeric_limits<double>::quiet_NaN(), d.logarithm);
}

const ImportRow kLuRows[] = {
    {"aten.inverse", inverse},
    {"aten.linalg_inv", inverse},
    {"aten.linalg_inv_ex", inverse},
    {"aten.linalg_solve", solve},
    {"aten.linalg_solve_ex", solve},
    {"aten._linalg_solve_ex", solve},
    {"aten.linalg_lu_factor", luFactor},
    {"aten.linalg_lu_factor_ex", luFactor},
    {"aten._lu_with_info", luFactor},
    {"aten.linalg_lu", lu},
    {"aten.lu_unpack", luUnpack},
    {"aten.lu_solve", luSolve},
    {"aten.linalg_lu_solve", luSolve},
    {"aten.det", det},
    {"aten.linalg_det", det},
    {"aten._linalg_det", det},
    {"aten.slogdet", slogdet},
    {"aten.linalg_slogdet", slogdet},
    {"aten._linalg_slogdet", slogdet},
    {"aten.logdet", logdet},
};

} // namespace
} // namespace aten::linalg

ImportRows torchLuRows() { return aten::linalg::kLuRows; }

} // namespace dtc
