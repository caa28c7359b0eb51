// Linear algebra: factorizations, and what follows from them.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::linalg {
namespace {

// --- Cholesky ---

ImportResults cholesky(ImportContext& c) {
  const Expr x = matrixOf(c);
  const Expr l = ops::cholesky(x, {.lower = !c.flag("upper", false)});
  if (c.node.results.size() < 2) return l;
  return {l, noInfo(c, batchOf(x))};
}

Expr triangular(Expr a, Expr b, bool lower, bool transposes) {
  return ops::triangular_solve(a, b, {.lower = lower, .transpose_a = transposes});
}

// A x = b for A = L Lᴴ or Uᴴ U
Expr choleskySolved(ImportContext& c, Expr l, Expr b, bool upper) {
  l = withBatch(c.b, l, batchOf(b)), b = withBatch(c.b, b, batchOf(l));
  if (isComplex(l.dtype())) { // the op has transposes, no adjoints
    const Expr first = upper ? adjoint(l) : l, second = upper ? l : adjoint(l);
    return triangular(second, triangular(first, b, true, false), false, false);
  }
  return upper ? triangular(l, triangular(l, b, false, true), false, false)
               : triangular(l, triangular(l, b, true, false), true, true);
}

ImportResults choleskySolve(ImportContext& c) {
  return choleskySolved(c, c.tensor("input2"), c.tensor("self"), c.flag("upper", false));
}

ImportResults choleskyInverse(ImportContext& c) {
  const Expr l = matrixOf(c);
  return choleskySolved(c, l, identity(c.b, l.dtype(), rowCount(l), batchOf(l)), c.flag("upper", false));
}

// --- QR, eigenvalues, singular values ---

ImportResults qr(ImportContext& c) {
  const Expr a = matrixOf(c);
  const std::string mode =
      c.has("some") ? (c.flag("some", true) ? "reduced" : "complete") : c.text("mode", "reduced");
  const auto f = ops::qr(a, {.full_matrices = mode == "complete"});
  if (mode == "r") return {filled(c.b, a.dtype(), resultDims(c), 0), f[1]};
  return f;
}

ImportResults geqrf(ImportContext& c) { return ops::geqrf(matrixOf(c)); }

ImportResults householder(ImportContext& c) {
  return ops::householder_product(matrixOf(c), c.tensor(c.has("tau") ? "tau" : "input2"));
}

ImportResults eigh(ImportContext& c) {
  const Expr a = matrixOf(c);
  const bool vectors = c.node.target.find("eigvalsh") == std::string::npos && c.flag("compute_v", true);
  const auto f = ops::eigh(a, {.lower = c.text("UPLO", "L") != "U", .vectors = vectors});
  if (!vectors && c.node.results.size() < 2) return f[0];
  return {f[0], vectors ? f[1] : filled(c.b, a.dtype(), {Dim(0)}, 0)};
}

ImportResults svd(ImportContext& c) {
  const Expr a = matrixOf(c);
  const bool old = c.node.target.starts_with("aten.svd");
  if (!c.flag("compute_uv", true)) c.fail("computes no vectors: write torch.linalg.svdvals");
  const bool whole = c.node.target.starts_with("aten.linalg_svd"); // (the default)
  const bool full = old ? !c.flag("some", true) : c.flag("full_matrices", whole);
  const auto f = ops::svd(a, {.full_matrices = full});
  return {f[1], f[0], old ? adjoint(f[2]) : f[2]};
}

Expr singularValues(Expr a) { return ops::svd(a, {.compute_uv = false})[0]; }
ImportResults svdvals(ImportContext& c) { return singularValues(matrixOf(c)); }

// --- triangular systems ---

ImportResults solveTriangular(ImportContext& c) {
  const bool old = c.node.target.starts_with("aten.triangular_solve");
  Expr a = c.tensor(old ? "A" : "self"), b = c.tensor(old ? "self" : "B");
  const bool left = c.flag("left", true), upper = c.flag("upper", old);
  const Dims batch = broadcastDims(c.b, batchOf(a), batchOf(b));
  a = withBatch(c.b, a, batch), b = withBatch(c.b, b, batch);
  const Expr x = ops::triangular_solve(a, b,
                                       {.left_side = left,
                                        .lower = !upper,
                                        .unit_diagonal = c.flag("unitriangular", false),
                                        .transpose_a = c.flag("transpose", false)});
  if (!old) return x;
  return {x, a};
}

// --- norms and their like ---

// Over the last two dims.
Expr matrixNorm(ImportContext& c, Expr x, const std::string& word, double order) {
  const std::vector<int64_t> both{rows(x), columns(x)};
  const Expr size = isComplex(x.dtype()) || word.empty() || word == "fro" ? ops::abs(x) : x;
  if (word == "fro") return ops::sqrt(ops::sum(ops::square(size), {.dims = both}));
  if (word == "nuc") return ops::sum(singularValues(x), {.dims = std::vector<int64_t>{rows(x)}});
  if (!word.empty()) c.fail("has the order '" + word + "'");
  const double p = std::abs(order);
  const Dims& dims = x.dims();
  if (order > 0 && std::ranges::any_of(dims.end() - 2, dims.end(), [](Dim d) { return d == Dim(0); }))
    return filled(c.b, size.dtype(), batchOf(x), 0); // of no elements
  if (p == 2) {
    const Expr s = singularValues(x);
    const std::vector<int64_t> one{static_cast<int64_t>(s.rank()) - 1};
    return order > 0 ? ops::max(s, ops::MaxArgs{.dims = one}) : ops::min(s, ops::MinArgs{.dims = one});
  }
  if (p != 1 && !std::isinf(p)) c.fail("has the order " + std::to_string(order));
  const std::vector<int64_t> summed{p == 1 ? rows(x) : columns(x)};
  const Expr sums = ops::sum(size, {.dims = summed});
  const std::vector<int64_t> rest{static_cast<int64_t>(sums.rank()) - 1};
  return order > 0 ? ops::max(sums, ops::MaxArgs{.dims = rest}) : ops::min(sums, ops::MinArgs{.dims = rest});
}

Expr normAlong(ImportContext& c, Expr x, std::vector<int64_t> d, const std::string& word, double order) {
  if (d.size() != 2) c.fail("takes a matrix norm of " + std::to_string(d.size()) + " dims");
  std::vector<int64_t> perm;
  for (int64_t i : allDims(x.rank()))
    if (std::ranges::find(d, i) == d.end()) perm.push_back(i);
  perm.insert(perm.end(), d.begin(), d.end());
  return reshapeTo(matrixNorm(c, permuted(x, perm), word, order), resultDims(c));
}

ImportResults matrixNormRow(ImportContext& c) {
  Expr x = matrixOf(c);
  if (c.has("dtype")) x = x.as(*c.dtype("dtype"));
  const std::string word = c.is<std::string>("ord") ? c.text("ord", "fro") : c.has("ord") ? "" : "fro";
  return normAlong(c, x, dimsOf(c.b, c.ints("dim", {-2, -1}), x.rank()), word,
                   word.empty() ? c.real("ord") : 0);
}

ImportResults linalgNorm(ImportContext& c) {
  Expr x = c.tensor("self");
  if (c.has("dtype")) x = x.as(*c.dtype("dtype"));
  const bool hasOrder = c.has("ord");
  std::vector<int64_t> d = dims(c, "dim", x.rank());
  if (c.is<std::string>("ord") || (hasOrder && d.size() == 2))
    return normAlong(c, x, d, c.is<std::string>("ord") ? c.text("ord", "") : "",
                     c.is<std::string>("ord") ? 0 : c.real("ord"));
  if (isComplex(x.dtype())) x = ops::abs(x);
  const double p = hasOrder ? c.real("ord") : 2;
  if (d.empty()) return ops::abs(x);
  if (p == 0) return reshapeTo(ops::sum(ops::ne(x, 0.0).as(x.dtype()), {.dims = d}), resultDims(c));
  if (std::isinf(p))
    return reshapeTo(p > 0 ? ops::max(ops::abs(x), ops::MaxArgs{.dims = d})
                           : ops::min(ops::abs(x), ops::MinArgs{.dims = d}),
                     resultDims(c));
  const Expr power = p == 2 ? ops::square(x) : ops::pow(ops::abs(x), ops::abs(x).literal(p));
  const Expr sum = reshapeTo(ops::sum(power, {.dims = d}), resultDims(c));
  return p == 2 ? ops::sqrt(sum) : ops::pow(sum, sum.literal(1 / p));
}

ImportResults cond(ImportContext& c) {
  const Expr x = matrixOf(c);
  const std::string word = c.is<std::string>("p") ? c.text("p", "") : "";
  const double p = word.empty() ? c.real("p", 2) : 0;
  if (word.empty() && std::abs(p) == 2) {
    const Expr s = singularValues(x);
    const std::vector<int64_t> one{static_cast<int64_t>(s.rank()) - 1};
    const Expr most = ops::max(s, ops::MaxArgs{.dims = one}), least = ops::min(s, ops::MinArgs{.dims = one});
    return p > 0 ? most / least : least / most;
  }
  return matrixNorm(c, x, word, p) * matrixNorm(c, inverted(c, x), word, p);
}

// Singular values above max(atol, rtol * the largest).
Expr significant(ImportContext& c, Expr a, Expr s) {
  const auto bound = [&](const char* key) { return c.has(key) ? tensorOf(in(c, key, s.dtype())) : Expr(); };
  Expr atol = bound("atol"), rtol = bound(c.has("rcond") ? "rcond" : "rtol");
  if (c.has("tol")) atol = bound("tol");
  const double eps = s.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
  const auto most = staticDims(c.b, {rowCount(a), columnCount(a)});
  if (!rtol.valid()) {
    rtol = filled(c.b, s.dtype(), {}, eps * static_cast<double>(std::max(most[0], most[1])));
    if (atol.valid()) rtol = ops::select(atol > 0.0, rtol * 0.0, rtol);
  }
  const std::vector<int64_t> one{static_cast<int64_t>(s.rank()) - 1};
  const Expr largest = ops::max(s, ops::MaxArgs{.dims = one, .keepdim = true});
  const auto column = [&](Expr t) { return t.rank() == 0 ? t : withDim(t, static_cast<int64_t>(t.rank())); };
  Expr limit = column(rtol) * largest;
  if (atol.valid()) limit = ops::max(limit, column(atol));
  return s > limit;
}

ImportResults pinv(ImportContext& c) {
  Expr a = matrixOf(c);
  if (c.flag("hermitian", false)) {
    const Expr strict = ops::tril(a, {.diagonal = -1});
    Expr diagonal = ops::tril(a) - strict; // whose imaginary parts do not count
    if (isComplex(a.dtype())) diagonal = ops::complex(ops::real(diagonal), 0.0);
    const Expr lower = strict + diagonal;
    a = lower + adjoint(strict);
  }
  const auto [s, u, vh] = ops::svd(a);
  const Expr inverse = ops::select(significant(c, a, s), 1.0 / s, 0.0).as(a.dtype());
  const Expr scaled = adjoint(vh) * withDim(inverse, rows(u));
  return ops::matmul(scaled, adjoint(u));
}

ImportResults matrixRank(ImportContext& c) {
  const Expr a = matrixOf(c), s = singularValues(a);
  const std::vector<int64_t> one{static_cast<int64_t>(s.rank()) - 1};
  return ops::sum(significant(c, a, s).as(DType::I32), {.dims = one});
}

ImportResults tensorInverse(ImportContext& c) {
  const Expr a = c.tensor("self");
  const auto ind = static_cast<size_t>(std::max<int64_t>(c.integer("ind", 2), 0));
  if (ind > a.rank()) c.fail("has an 'ind' beyond its operand's rank");
  const Dim n = elementsOf(c.b, Dims(a.dims().begin(), a.dims().begin() + static_cast<std::ptrdiff_t>(ind)));
  return reshapeTo(inverted(c, reshapeTo(a, {n, n})), resultDims(c));
}

ImportResults tensorSolve(ImportContext& c) {
  Expr a = c.tensor("self");
  const Expr b = c.tensor("other");
  const std::vector<int64_t> last =
      c.has("dims") ? dimsOf(c.b, c.ints("dims"), a.rank()) : std::vector<int64_t>{};
  std::vector<int64_t> perm;
  for (int64_t i : allDims(a.rank()))
    if (std::ranges::find(last, i) == last.end()) perm.push_back(i);
  perm.insert(perm.end(), last.begin(), last.end());
  a = permuted(a, perm);
  const Dim n = elementsOf(c.b, b.dims());
  return reshapeTo(solved(c, reshapeTo(a, {n, n}), reshapeTo(b, {n, 1})), resultDims(c));
}

ImportResults vander(ImportContext& c) {
  const Expr x =
      reshapeTo(c.tensor("x").as(c.result().dtype), Dims(resultDims(c).begin(), resultDims(c).end() - 1));
  const int64_t n = staticDims(c.b, {resultDims(c).back()})[0];
  constexpr int64_t kMost = 4096;
  if (n > kMost) c.fail("has more than 4096 powers");
  std::vector<Expr> powers;
  Expr now = filled(c.b, x.dtype(), x.dims(), 1);
  for (int64_t i = 0; i < n; ++i) {
    powers.push_back(now);
    now = now * x;
  }
  return ops::stack(c.b, powers, static_cast<int64_t>(x.rank()));
}

// The powers fall, unless `increasing`.
ImportResults fallingVander(ImportContext& c) {
  const Expr powers = vander(c).values.at(0);
  const std::vector<int64_t> last{static_cast<int64_t>(powers.rank()) - 1};
  return c.flag("increasing", false) ? powers : ops::flip(powers, last);
}

// exp(A) = exp(A / 2^s)^(2^s), with the series of degree 18.
ImportResults matrixExp(ImportContext& c) {
  const Expr given = matrixOf(c);
  const Expr a = given.as(isComplex(given.dtype()) ? DType::C128 : DType::F64);
  constexpr int kSquarings = 6, kDegree = 14;
  const Expr x = a / std::pow(2.0, kSquarings);
  Expr term = identity(c.b, a.dtype(), rowCount(a), batchOf(a)), sum = term;
  for (int i = 1; i <= kDegree; ++i) {
    term = ops::matmul(term, x) / static_cast<double>(i);
    sum = sum + term;
  }
  for (int i = 0; i < kSquarings; ++i) sum = ops::matmul(sum, sum);
  return sum.as(given.dtype());
}

// A = U P with a positive P.
ImportResults polarFactors(ImportContext& c) {
  const Expr a = matrixOf(c);
  const auto [s, u, vh] = ops::svd(a);
  const Expr scaled = adjoint(vh) * withDim(s, rows(vh)).as(a.dtype());
  const Expr unitary = ops::matmul(u, vh);
  return {unitary, ops::matmul(scaled, vh)};
}

ImportResults squareRoot(ImportContext& c) { // of a positive matrix
  const auto [values, vectors] = ops::eigh(matrixOf(c));
  const Expr roots = withDim(ops::sqrt(ops::max(values, 0.0)), rows(vectors));
  const Expr scaled = vectors * roots.as(vectors.dtype());
  return ops::matmul(scaled, adjoint(vectors));
}

// Q x, x Q or their transposes, for the Q of geqrf.
ImportResults ormqr(ImportContext& c) {
  const Expr packed = matrixOf(c), tau = c.tensor(c.has("input2") ? "input2" : "tau"),
             x = c.tensor(c.has("input3") ? "input3" : "other");
  const int64_t m = staticDims(c.b, {rowCount(packed)})[0], n = staticDims(c.b, {columnCount(packed)})[0];
  std::vector<int64_t> none(packed.rank(), 0), more(packed.rank(), 0);
  more.back() = m - n;
  const Expr wide = ops::pad(packed, {.value = c.literal(0.0, packed.dtype()), .low = none, .high = more});
  const Expr q = ops::householder_product(wide, tau);
  const Expr f = c.flag("transpose", false) ? adjoint(q) : q;
  return c.flag("left", true) ? ops::matmul(f, x) : ops::matmul(x, f);
}

const ImportRow kRows[] = {
    {"aten.linalg_polar", polarFactors},
    {"aten.linalg_matrix_sqrth", squareRoot},
    {"aten.ormqr", ormqr},
    {"aten.cholesky", cholesky},
    {"aten.linalg_cholesky", cholesky},
    {"aten.linalg_cholesky_ex", cholesky},
    {"aten.cholesky_solve", choleskySolve},
    {"aten.cholesky_inverse", choleskyInverse},
    {"aten.qr", qr},
    {"aten.linalg_qr", qr},
    {"aten.geqrf", geqrf},
    {"aten.linalg_householder_product", householder},
    {"aten.orgqr", householder},
    {"aten.linalg_eigh", eigh},
    {"aten._linalg_eigh", eigh},
    {"aten.linalg_eigvalsh", eigh},
    {"aten.svd", svd},
    {"aten.linalg_svd", svd},
    {"aten._linalg_svd", svd},
    {"aten.linalg_svdvals", svdvals},
    {"aten.linalg_solve_triangular", solveTriangular},
    {"aten.triangular_solve", solveTriangular},
    {"aten.linalg_matrix_norm", matrixNormRow},
    {"aten.linalg_norm", linalgNorm},
    {"aten.linalg_cond", cond},
    {"aten.linalg_pinv", pinv},
    {"aten.pinverse", pinv},
    {"aten.linalg_matrix_rank", matrixRank},
    {"aten.linalg_tensorinv", tensorInverse},
    {"aten.linalg_tensorsolve", tensorSolve},
    {"aten.linalg_vander", vander},
    {"aten.vander", fallingVander},
    {"aten.matrix_exp", matrixExp},
    {"aten.linalg_matrix_exp", matrixExp},
    {"aten.matrix_H", [](ImportContext& c) { return ImportResults(adjoint(matrixOf(c))); }},
};

} // namespace
} // namespace aten::linalg

ImportRows torchLinalgRows() { return aten::linalg::kRows; }

} // namespace dtc
