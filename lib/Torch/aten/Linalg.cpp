// Linear algebra: factorizations, and what follows from them.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::linalg {
namespace {

Expr matrixOf(ImportContext& c) {
  const Expr x = c.tensor(c.has("A") ? "A" : c.has("self") ? "self" : "input");
  if (x.rank() < 2) c.fail("has an operand of rank " + std::to_string(x.rank()) + ", not a matrix");
  return x;
}

int64_t rows(Expr x) { return static_cast<int64_t>(x.rank()) - 2; }
int64_t columns(Expr x) { return static_cast<int64_t>(x.rank()) - 1; }
Dim rowCount(Expr x) { return x.dims().at(x.rank() - 2); }
Dim columnCount(Expr x) { return x.dims().at(x.rank() - 1); }
Expr transposed(Expr x) { return swapped(x, rows(x), columns(x)); }
Expr adjoint(Expr x) { return isComplex(x.dtype()) ? ops::conj(transposed(x)) : transposed(x); }

Expr identity(Builder& b, DType d, Dim n, const Dims& batch) {
  Dims dims = batch;
  dims.push_back(n), dims.push_back(n);
  return broadcastTo(ops::eye(b, checkedType(b, d, {n, n})), dims);
}

Dims batchOf(Expr x) { return {x.dims().begin(), x.dims().end() - 2}; }
Expr noInfo(ImportContext& c, const Dims& batch) { return filled(c.b, DType::I32, batch, 0); }

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

Expr withBatch(Builder& b, Expr x, const Dims& batch) {
  Dims dims = broadcastDims(b, batch, batchOf(x));
  dims.push_back(rowCount(x)), dims.push_back(columnCount(x));
  return broadcastTo(x, dims);
}

// A x = b for A = L Lᵀ
Expr choleskySolved(ImportContext& c, Expr l, Expr b, bool upper) {
  l = withBatch(c.b, l, batchOf(b)), b = withBatch(c.b, b, batchOf(l));
  if (isComplex(l.dtype())) c.fail("solves with complex factors");
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

// --- LU ---

// Rows of b in the order of `permutation`.
Expr permutedRows(Expr b, Expr permutation) {
  const Expr index = broadcastTo(withDim(permutation, columns(b)), b.dims());
  return ops::gather(b, index, {.dim = rows(b)});
}

Expr luSolved(Expr lu, Expr permutation, Expr b) {
  const Expr y =
      ops::triangular_solve(lu, permutedRows(b, permutation), {.lower = true, .unit_diagonal = true});
  return ops::triangular_solve(lu, y, {.lower = false});
}

// x with a x = b.
Expr solved(ImportContext& c, Expr a, Expr b) {
  const Dims batch = broadcastDims(c.b, batchOf(a), batchOf(b));
  a = withBatch(c.b, a, batch), b = withBatch(c.b, b, batch);
  const auto f = ops::lu(a);
  return luSolved(f[0], f[2], b);
}

Expr inverted(ImportContext& c, Expr a) {
  return solved(c, a, identity(c.b, a.dtype(), rowCount(a), batchOf(a)));
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
  const Expr ones = ops::eye(c.b, checkedType(c.b, lu.dtype(), {m, k}));
  const Expr upper = sliceOf(ops::triu(lu), rows(lu), 0, k);
  const Expr p = transposed(ops::one_hot(permutation, {.depth = m, .dtype = lu.dtype()}));
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
  return {p.p, p.l, p.u};
}

ImportResults luSolve(ImportContext& c) {
  const bool old = c.has("LU_data");
  Expr lu = c.tensor(old ? "LU_data" : "LU"), b = c.tensor(old ? "self" : "B");
  Expr pivots = c.tensor(old ? "LU_pivots" : "pivots").as(DType::I32) - 1;
  if (!c.flag("left", true) || c.flag("adjoint", false)) c.fail("solves from the right, or with the adjoint");
  Expr permutation = permutationOf(c, pivots, staticDims(c.b, {rowCount(lu)})[0]);
  const Dims batch = broadcastDims(c.b, batchOf(lu), batchOf(b));
  lu = withBatch(c.b, lu, batch), b = withBatch(c.b, b, batch);
  Dims order = batch;
  order.push_back(rowCount(lu));
  return luSolved(lu, broadcastTo(permutation, order), b);
}

struct Determinant {
  Expr sign, logarithm, value; // of real matrices
  Expr lu, pivots;
};

Determinant determinant(ImportContext& c) {
  const Expr a = matrixOf(c);
  const auto f = ops::lu(a);
  const int64_t n = staticDims(c.b, {rowCount(a)})[0];
  Dims flat = batchOf(a);
  flat.emplace_back(n * n);
  if (n == 0) {
    const Expr one = filled(c.b, a.dtype(), batchOf(a), 1), zero = filled(c.b, a.dtype(), batchOf(a), 0);
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
  if (isComplex(a.dtype())) return d;
  d.sign = ops::prod(ops::sign(diagonal), {.dims = over}) * parity;
  d.logarithm = ops::sum(ops::log(ops::abs(diagonal)), {.dims = over});
  return d;
}

ImportResults det(ImportContext& c) {
  const Determinant d = determinant(c);
  if (c.node.results.size() < 2) return d.value;
  return {d.value, d.lu, d.pivots + 1};
}

ImportResults slogdet(ImportContext& c) {
  const Determinant d = determinant(c);
  if (!d.sign.valid()) c.fail("has a complex matrix");
  return {d.sign, d.logarithm, d.lu, d.pivots + 1};
}

ImportResults logdet(ImportContext& c) {
  const Determinant d = determinant(c);
  if (!d.sign.valid()) c.fail("has a complex matrix");
  return ops::select(d.sign < 0.0, std::numeric_limits<double>::quiet_NaN(), d.logarithm);
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
  const bool full = old ? !c.flag("some", true) : c.flag("full_matrices", true);
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
  if (c.flag("hermitian", false)) a = ops::tril(a) + adjoint(ops::tril(a, {.diagonal = -1}));
  if (isComplex(a.dtype())) c.fail("has a complex matrix");
  const auto [s, u, vh] = ops::svd(a);
  const Expr inverse = ops::select(significant(c, a, s), 1.0 / s, 0.0);
  return ops::matmul(adjoint(vh) * withDim(inverse, rows(u)), adjoint(u));
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

// exp(A) = exp(A / 2^s)^(2^s), with the series of degree 18.
ImportResults matrixExp(ImportContext& c) {
  const Expr a = matrixOf(c);
  constexpr int kSquarings = 6, kDegree = 14;
  const Expr x = a / std::pow(2.0, kSquarings);
  Expr term = identity(c.b, a.dtype(), rowCount(a), batchOf(a)), sum = term;
  for (int i = 1; i <= kDegree; ++i) {
    term = ops::matmul(term, x) / static_cast<double>(i);
    sum = sum + term;
  }
  for (int i = 0; i < kSquarings; ++i) sum = ops::matmul(sum, sum);
  return sum;
}

// A = U P with a positive P.
ImportResults polarFactors(ImportContext& c) {
  const Expr a = matrixOf(c);
  const auto [s, u, vh] = ops::svd(a);
  return {ops::matmul(u, vh), ops::matmul(adjoint(vh) * withDim(s, rows(vh)), vh)};
}

ImportResults squareRoot(ImportContext& c) { // of a positive matrix
  const auto [values, vectors] = ops::eigh(matrixOf(c));
  return ops::matmul(vectors * withDim(ops::sqrt(ops::max(values, 0.0)), rows(vectors)), adjoint(vectors));
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
    {"aten.matrix_exp", matrixExp},
    {"aten.linalg_matrix_exp", matrixExp},
    {"aten.matrix_H", [](ImportContext& c) { return ImportResults(adjoint(matrixOf(c))); }},
};

} // namespace
} // namespace aten::linalg

ImportRows torchLinalgRows() { return aten::linalg::kRows; }

} // namespace dtc
