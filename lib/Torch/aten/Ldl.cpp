// LDLᵀ and LDLᴴ with the pivots of Bunch and Kaufman, in LAPACK's layout (sytrf, hetrf and their solvers, of the lower
// triangle): blocks of one or two rows of D, and a row swap for each. All matrices of a batch take the same number of
// steps; the second row of a block of two is a step that does nothing.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <array>

namespace dtc {
namespace aten::linalg {
namespace {

constexpr double kAlpha = 0.6403882032022076; // (1 + sqrt(17)) / 8

// Matrices of one size: [batch, n, n].
struct Form {
  int64_t batch = 1, n = 0;
  bool hermitian = false;
};

Dims dimsOf(std::initializer_list<int64_t> dims) { return {dims.begin(), dims.end()}; }
Expr zeroLike(Builder& b, Expr x) { return filled(b, x.dtype(), x.dims(), 0); }

// The number of each row: [batch, n].
Expr places(Builder& b, const Form& s) {
  return ops::iota(b, checkedType(b, DType::I32, dimsOf({s.batch, s.n})), {.dim = 1});
}
Expr perRow(Expr v, const Form& s) { return broadcastTo(withDim(v, 1), dimsOf({s.batch, s.n})); }
// Of [batch, n, m], for the rows where `p` [batch, n] holds.
Expr selectRows(Expr p, Expr x, Expr y) {
  const Expr wide = broadcastTo(x, y.dims());
  return ops::select(broadcastTo(withDim(p, 2), y.dims()), wide, y);
}
Expr selectColumns(Expr p, Expr x, Expr y) {
  const Expr wide = broadcastTo(withDim(x, 2), y.dims());
  return ops::select(broadcastTo(withDim(p, 1), y.dims()), wide, y);
}
Expr outer(Expr u, Expr v) {
  const Expr left = withDim(u, 2);
  return left * withDim(v, 1);
}

Expr at(Expr x, Expr index) { return withoutDim(ops::gather(x, withDim(index, 1), {.dim = 1}), 1); }
Expr column(Expr x, Expr index, const Form& s) {
  const Expr wide = broadcastTo(withDim(withDim(index, 1), 1), dimsOf({s.batch, s.n, 1}));
  return withoutDim(ops::gather(x, wide, {.dim = 2}), 2);
}
Expr row(Expr x, Expr index) { // [batch, 1, m]
  const Expr wide = broadcastTo(withDim(withDim(index, 1), 1), {x.dims()[0], Dim(1), x.dims()[2]});
  return ops::gather(x, wide, {.dim = 1});
}
Expr withRowsSwapped(Builder& b, Expr x, Expr i, Expr j, const Form& s) {
  const Expr place = places(b, s), wideI = perRow(i, s), wideJ = perRow(j, s);
  const Expr isI = ops::eq(place, wideI), isJ = ops::eq(place, wideJ);
  const Expr order = ops::select(isI, wideJ, ops::select(isJ, wideI, place));
  return ops::gather(x, broadcastTo(withDim(order, 2), x.dims()), {.dim = 1});
}

// As LAPACK compares pivots.
Expr size(Expr x) {
  if (!isComplex(x.dtype())) return ops::abs(x);
  const Expr real = ops::abs(ops::real(x));
  return real + ops::abs(ops::imag(x));
}
Expr mirrored(Expr x, const Form& s) { return s.hermitian && isComplex(x.dtype()) ? ops::conj(x) : x; }
Expr ofDiagonal(Expr x, const Form& s) {
  return s.hermitian && isComplex(x.dtype()) ? ops::complex(ops::real(x), 0.0) : x;
}

// A block [a b*; b d] of D, divided by the size of b.
struct Block {
  Expr a, b, upper, d, scale; // scale: what is left to divide solutions by
};

Block blockOf(Expr first, Expr off, Expr last, const Form& s) {
  Block out;
  const bool bySize = s.hermitian && isComplex(off.dtype());
  const Expr by = bySize ? ops::complex(ops::abs(off), 0.0) : off;
  out.a = first / by, out.b = off / by, out.d = last / by;
  out.upper = mirrored(out.b, s);
  const Expr product = out.a * out.d;
  const Expr determinant = product - out.b * out.upper;
  out.scale = by * determinant;
  return out;
}

// x and y with [a b*; b d] [x; y] = [x'; y']. `wide` gives numbers of matrices the rank of both.
template <class Wide> std::array<Expr, 2> blockSolved(const Block& block, Expr x, Expr y, Wide&& wide) {
  const Expr a = wide(block.a), b = wide(block.b), upper = wide(block.upper), d = wide(block.d),
             scale = wide(block.scale);
  const Expr dx = x * d, by = y * upper, ay = y * a, bx = x * b;
  const Expr first = dx - by, second = ay - bx;
  return {first / scale, second / scale};
}

struct Pivot {
  Expr row;      // that is swapped with the last one of the block
  Expr two;      // whether the block has two rows
  Expr singular; // whether the column has no pivot
};

Pivot pivotOf(Builder& b, Expr w, Expr k, Expr second, const Form& s) {
  const Expr place = places(b, s), wideK = perRow(k, s), own = column(w, k, s);
  const Expr below = ops::gt(place, wideK), from = ops::ge(place, wideK);
  const Expr sizes = ops::select(below, size(own), 0.0);
  const std::vector<int64_t> over{1};
  const Expr largest = ops::max(sizes, {.dims = over}), other = ops::argmax(sizes, {.dim = 1});
  const Expr others = ops::and_(from, ops::ne(place, perRow(other, s)));
  const Expr there = size(column(w, other, s));
  const Expr besides = ops::max(ops::select(others, there, 0.0), {.dims = over});
  const Expr here = size(at(own, k)), least = largest * kAlpha, ratio = largest / besides;
  const Expr isZero = ops::eq(ops::max(here, largest), 0.0);
  const Expr singular = ops::or_(isZero, ops::is_nan(here));
  const Expr large = ops::ge(here, least), largeEnough = ops::ge(here, least * ratio);
  const Expr stays = ops::or_(ops::or_(singular, second), ops::or_(large, largeEnough));
  const Expr otherIsLarge = ops::ge(at(there, other), besides * kAlpha);
  const Expr fails = ops::and_(singular, ops::not_(second));
  const Expr two = ops::not_(ops::or_(stays, otherIsLarge));
  return {ops::select(stays, k, other), two, fails};
}

// One step: carried are the matrix that is left, LD, the pivots, info, and whether the row is a block's second.
std::vector<ValueId> factorStep(Builder& b, Expr i, std::span<const ValueId> carried, const Form& s) {
  const Expr given(b, carried[0]), ld(b, carried[1]), pivots(b, carried[2]), info(b, carried[3]),
      second(b, carried[4]);
  const Expr place = places(b, s), k = broadcastTo(i, dimsOf({s.batch})), next = ops::min(k + 1, s.n - 1);
  const Pivot p = pivotOf(b, given, k, second, s);
  const Expr last = ops::select(p.two, next, k), two = perRow(p.two, s);
  const Expr swapped = transposed(withRowsSwapped(b, given, last, p.row, s));
  const Expr w = transposed(withRowsSwapped(b, swapped, last, p.row, s));

  const Expr c = column(w, k, s), c1 = column(w, next, s), zero = zeroLike(b, c);
  const Expr a = ofDiagonal(at(c, k), s), off = at(c, next), d = ofDiagonal(at(c1, next), s);
  const Block block = blockOf(a, off, d, s);
  // Rows of L are solutions with the transposed block.
  const Block turned{block.a, block.upper, block.b, block.d, block.scale};
  const auto [first, other] = blockSolved(turned, c, c1, [](Expr e) { return withDim(e, 1); });
  const Expr active = perRow(ops::not_(ops::or_(second, p.singular)), s);
  const Expr under = ops::gt(place, perRow(last, s)), below = ops::and_(under, active);
  const Expr single = c / withDim(a, 1);
  const Expr u = ops::select(below, ops::select(two, first, single), zero);
  const Expr v = ops::select(ops::and_(below, two), other, zero);
  const Expr right = ops::select(below, mirrored(c, s), zero);
  const Expr right1 = ops::select(below, mirrored(c1, s), zero);
  const Expr without = w - outer(u, right);
  const Expr rest = without - outer(v, right1);

  const Expr wideK = perRow(k, s), here = ops::eq(place, wideK);
  const Expr there = ops::and_(ops::eq(place, perRow(next, s)), two);
  const Expr unpivoted = ops::and_(ops::gt(place, wideK), perRow(p.singular, s));
  const Expr tail = ops::select(unpivoted, c, u), offDiagonal = perRow(off, s), top = perRow(a, s);
  const Expr left = ops::select(here, top, ops::select(there, offDiagonal, tail));
  const Expr left1 = ops::select(there, perRow(d, s), v);
  const Expr starts = ops::and_(here, perRow(ops::not_(second), s));
  const Expr number = p.row + 1, pivot = perRow(ops::select(p.two, -number, number), s);
  const Expr fails = ops::and_(p.singular, ops::eq(info, 0));
  const Expr factors = selectColumns(there, left1, selectColumns(starts, left, ld));
  const Expr allPivots = ops::select(ops::or_(starts, there), pivot, pivots);
  return {rest, factors, allPivots, ops::select(fails, k + 1, info), p.two};
}

ImportResults ldlFactor(ImportContext& c) {
  const Expr given = matrixOf(c);
  Form s;
  s.hermitian = c.flag("hermitian", false);
  s.n = staticDims(c.b, {rowCount(given)})[0];
  const Dims batch = batchOf(given);
  s.batch = staticDims(c.b, {elementsOf(c.b, batch)})[0];
  Dims rowDims = batch;
  rowDims.emplace_back(s.n);
  if (s.n == 0 || s.batch == 0) {
    const Expr pivots = filled(c.b, DType::I32, rowDims, 0);
    return {given, pivots, noInfo(c, batch)};
  }

  const Expr lower = reshapeTo(ops::tril(given), dimsOf({s.batch, s.n, s.n}));
  const Expr strict = ops::tril(lower, {.diagonal = -1}), diagonal = ofDiagonal(lower - strict, s);
  const Expr half = strict + diagonal;
  const Expr whole = half + mirrored(transposed(strict), s), ld = zeroLike(c.b, whole);
  const Expr pivots = filled(c.b, DType::I32, dimsOf({s.batch, s.n}), 0);
  const Expr none = filled(c.b, DType::I32, dimsOf({s.batch}), 0);
  const auto end = ops::forLoop(
      c.b, int64_t(0), s.n, {whole, ld, pivots, none, ops::ne(none, 0)},
      [&](Builder& in, Expr i, std::span<const ValueId> carried) { return factorStep(in, i, carried, s); });
  const Expr factors = reshapeTo(end[1], given.dims()), ofRows = reshapeTo(end[2], rowDims);
  return {factors, ofRows, reshapeTo(end[3], batch)};
}

// P L and D of a block: carried are B and whether the row is a block's second.
std::vector<ValueId> forwardStep(Builder& b, Expr i, std::span<const ValueId> carried, Expr ld, Expr pivots,
                                 const Form& s) {
  const Expr given(b, carried[0]), second(b, carried[1]);
  const Expr place = places(b, s), k = broadcastTo(i, dimsOf({s.batch})), next = ops::min(k + 1, s.n - 1);
  const Expr pivot = at(pivots, k), first = ops::not_(second), two = ops::and_(first, ops::lt(pivot, 0));
  const Expr last = ops::select(two, next, k), other = ops::select(second, k, ops::abs(pivot) - 1);
  const Expr x = withRowsSwapped(b, given, last, other, s);
  const Expr l = column(ld, k, s), l1 = column(ld, next, s), zero = zeroLike(b, l);
  const Expr wideFirst = perRow(first, s), wideTwo = perRow(two, s), below = ops::gt(place, perRow(last, s));
  const Expr u = ops::select(ops::and_(below, wideFirst), l, zero);
  const Expr v = ops::select(ops::and_(below, wideTwo), l1, zero);
  const Expr top = row(x, k), under = row(x, next);
  const Expr without = x - withDim(u, 2) * top;
  const Expr rest = without - withDim(v, 2) * under;

  const auto wide = [](Expr e) { return withDim(withDim(e, 1), 1); };
  const Expr a = at(l, k), off = at(l, next), d = at(l1, next);
  const auto [solved, solved1] = blockSolved(blockOf(a, off, d, s), top, under, wide);
  const Expr ofTwo = broadcastTo(wide(two), top.dims()), single = top / wide(a);
  const Expr above = ops::select(ofTwo, solved, single);
  const Expr here = ops::and_(wideFirst, ops::eq(place, perRow(k, s)));
  const Expr there = ops::and_(wideTwo, ops::eq(place, perRow(next, s)));
  return {selectRows(there, solved1, selectRows(here, above, rest)), two};
}

// The adjoint of P L, from the last row: carried are B and whether the row is a block's first.
std::vector<ValueId> backwardStep(Builder& b, Expr i, std::span<const ValueId> carried, Expr ld, Expr pivots,
                                  const Form& s) {
  const Expr x(b, carried[0]), done(b, carried[1]);
  const Expr place = places(b, s), k = broadcastTo((s.n - 1) - i, dimsOf({s.batch})),
             before = ops::max(k - 1, 0);
  const Expr pivot = at(pivots, k), works = ops::not_(done), two = ops::and_(works, ops::lt(pivot, 0));
  const Expr below = ops::gt(place, perRow(k, s));
  const auto without = [&](Expr y, Expr index, Expr where) {
    const Expr l = mirrored(column(ld, index, s), s);
    const Expr product = ops::matmul(withDim(ops::select(below, l, zeroLike(b, l)), 1), x);
    const Expr rows = ops::and_(perRow(where, s), ops::eq(place, perRow(index, s)));
    return selectRows(rows, y - product, y);
  };
  const Expr y = without(without(x, k, works), before, two);
  const Expr other = ops::select(works, ops::abs(pivot) - 1, k);
  return {withRowsSwapped(b, y, k, other, s), two};
}

ImportResults ldlSolve(ImportContext& c) {
  Expr ld = c.tensor("LD"), x = c.tensor("B"), pivots = c.tensor("pivots").as(DType::I32);
  Form s;
  s.hermitian = c.flag("hermitian", false);
  s.n = staticDims(c.b, {rowCount(ld)})[0];
  const Dims batch = broadcastDims(c.b, batchOf(ld), batchOf(x));
  Dims rowDims = batch;
  rowDims.emplace_back(s.n);
  s.batch = staticDims(c.b, {elementsOf(c.b, batch)})[0];
  const Expr given = withBatch(c.b, x, batch);
  const int64_t m = staticDims(c.b, {columnCount(x)})[0];
  if (s.n == 0 || s.batch == 0 || m == 0) return given;
  x = reshapeTo(given, dimsOf({s.batch, s.n, m}));
  ld = reshapeTo(withBatch(c.b, ld, batch), dimsOf({s.batch, s.n, s.n}));
  pivots = reshapeTo(broadcastTo(pivots, rowDims), dimsOf({s.batch, s.n}));
  const Expr none = ops::ne(filled(c.b, DType::I32, dimsOf({s.batch}), 0), 0);
  using Step = decltype(&forwardStep);
  for (const Step step : {forwardStep, backwardStep})
    x = ops::forLoop(c.b, int64_t(0), s.n, {x, none},
                     [&](Builder& in, Expr i, std::span<const ValueId> carried) {
                       return step(in, i, carried, Expr(in, ld), Expr(in, pivots), s);
                     })[0];
  return reshapeTo(x, given.dims());
}

const ImportRow kLdlRows[] = {
    {"aten.linalg_ldl_factor", ldlFactor},
    {"aten.linalg_ldl_factor_ex", ldlFactor},
    {"aten.linalg_ldl_solve", ldlSolve},
};

} // namespace
} // namespace aten::linalg

ImportRows torchLdlRows() { return aten::linalg::kLdlRows; }

} // namespace dtc
