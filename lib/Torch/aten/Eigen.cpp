// Eigenvalues and eigenvectors of general matrices: a complex Schur form by shifted QR iterations, and the vectors
// of its triangle (Golub and Van Loan, Matrix Computations, 7.5 and 7.6). Computed in c128.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

namespace dtc {
namespace aten::linalg {
namespace {

constexpr double kEpsilon = 2.220446049250313e-16;
constexpr int64_t kIterations = 30;  // for each eigenvalue
constexpr int64_t kExceptional = 10; // iterations after which another shift is taken
constexpr double kLarge = 1e100;     // vectors are scaled to stay below it

// Matrices of one size: [batch, n, n].
struct Shape {
  int64_t batch = 1, n = 0;
};

Expr at(Builder& b, Expr x) { return Expr(b, x); }

TypeId typeOf(Builder& b, DType d, std::initializer_list<int64_t> dims) {
  Dims all;
  for (int64_t n : dims) all.emplace_back(n);
  return checkedType(b, d, all);
}
Expr fill(Builder& b, DType d, std::initializer_list<int64_t> dims, double value) {
  Dims all;
  for (int64_t n : dims) all.emplace_back(n);
  return filled(b, d, all, value);
}

Expr asComplex(Expr x) {
  return isComplex(x.dtype()) ? ops::convert(x, DType::C128) : ops::complex(ops::convert(x, DType::F64), 0.0);
}

// 1 where the column of [batch, n] is that of the index [batch].
Expr unit(Builder& b, Expr index, const Shape& s) {
  const Expr column = ops::iota(b, typeOf(b, DType::I32, {s.batch, s.n}), {.dim = 1});
  return ops::convert(ops::eq(column, broadcastTo(withDim(index, 1), column.dims())), DType::F64);
}

// u T v of each matrix, for real rows u and v: [batch].
Expr element(Expr t, Expr u, Expr v) {
  const Expr weights = ops::mul(withDim(u, 2), withDim(v, 1));
  return ops::sum(t * ops::complex(weights, 0.0), {.dims = std::vector<int64_t>{1, 2}});
}

// The eigenvalue of the last 2 x 2 block up to row `last` that is nearer to its last element.
Expr wilkinsonShift(Builder& b, Expr t, Expr last, Expr count, const Shape& s) {
  const Expr e = unit(b, last, s), f = unit(b, last - 1, s); // f is 0 if there is no row before
  const Expr p = element(t, f, f), q = element(t, f, e), r = element(t, e, f), d = element(t, e, e);
  const Expr half = (p - d) * 0.5, root = ops::sqrt(half * half + q * r);
  const Expr above = half + root, below = half - root; // relative to d
  const Expr near = ops::select(ops::le(ops::abs(above), ops::abs(below)), above, below);
  const Expr exceptional = ops::eq(ops::rem(count, kExceptional), kExceptional - 1);
  return d + ops::select(exceptional, ops::complex(ops::abs(r) + ops::abs(q), 0.0), near);
}

// The factor Q of (T - shift) for the leading rows and columns in `active`, the identity elsewhere.
Expr rotation(Builder& b, Expr t, Expr shift, Expr active, const Shape& s) {
  const Expr one = identity(b, DType::F64, s.n, {Dim(s.batch)});
  const Expr block = ops::mul(withDim(active, 2), withDim(active, 1)), rest = one * withDim(1.0 - active, 2);
  const Expr shifted = t - ops::complex(one, 0.0) * withDim(withDim(shift, 1), 1);
  return ops::qr(shifted * ops::complex(block, 0.0) + ops::complex(rest, 0.0), {})[0];
}

struct Schur {
  Expr t, z; // A = Z T Zᴴ
};

// One iteration for each matrix: carried are its number, T, Z, the row whose left part is to vanish, and the
// iterations since the last one vanished.
std::vector<ValueId> iteration(Builder& b, std::span<const ValueId> carried, Expr norm, const Shape& s) {
  const Expr number(b, carried[0]), t(b, carried[1]), z(b, carried[2]), last(b, carried[3]),
      count(b, carried[4]);
  const Expr column = ops::iota(b, typeOf(b, DType::I32, {s.batch, s.n}), {.dim = 1});
  const Expr active = ops::convert(ops::le(column, broadcastTo(withDim(last, 1), column.dims())), DType::F64);
  const Expr q = rotation(b, t, wilkinsonShift(b, t, last, count, s), active, s);
  const Expr works = ops::gt(last, 0), mask = withDim(withDim(works, 1), 1);
  const Expr turned = ops::matmul(ops::matmul(adjoint(q), t), q);
  const Expr nextT = ops::select(broadcastTo(mask, t.dims()), turned, t);
  const Expr nextZ = ops::select(broadcastTo(mask, z.dims()), ops::matmul(z, q), z);
  const Expr e = unit(b, last, s), left = active - e;
  const Expr row = ops::sum(ops::abs(nextT) * withDim(e, 2), {.dims = std::vector<int64_t>{1}});
  const Expr rest = ops::sum(row * left, {.dims = std::vector<int64_t>{1}});
  const Expr found = ops::and_(works, ops::le(rest, norm * (kEpsilon * static_cast<double>(s.n))));
  const Expr gone =
      ops::mul(withDim(e, 2), withDim(left, 1)) * withDim(withDim(ops::convert(found, DType::F64), 1), 1);
  return {number + 1, nextT * ops::complex(1.0 - gone, 0.0), nextZ, ops::select(found, last - 1, last),
          ops::select(found, 0, count + 1)};
}

Schur schur(Builder& b, Expr a, Expr norm, const Shape& s) {
  const Expr z = ops::complex(identity(b, DType::F64, s.n, {Dim(s.batch)}), 0.0);
  const Expr last = fill(b, DType::I32, {s.batch}, static_cast<double>(s.n - 1));
  const Expr zero = fill(b, DType::I32, {}, 0), none = fill(b, DType::I32, {s.batch}, 0);
  const auto goesOn = [&](Builder& in, std::span<const ValueId> carried) -> std::vector<ValueId> {
    const Expr more = ops::any(ops::gt(Expr(in, carried[3]), 0));
    return {ops::and_(more, ops::lt(Expr(in, carried[0]), kIterations * s.n))};
  };
  const auto body = [&](Builder& in, std::span<const ValueId> carried) {
    return iteration(in, carried, at(in, norm), s);
  };
  const auto end = ops::whileLoop(b, {zero, a, z, last, none}, goesOn, body);
  return {end[1], end[2]};
}

// The diagonals: [batch, n].
Expr diagonal(Builder& b, Expr t, const Shape& s) {
  const Expr one = identity(b, DType::F64, s.n, {Dim(s.batch)});
  return ops::sum(t * ops::complex(one, 0.0), {.dims = std::vector<int64_t>{2}});
}

// The eigenvectors of upper triangular matrices as columns, by back substitution for all at once. A difference of
// eigenvalues that vanishes is replaced by one of rounding.
Expr triangleVectors(Builder& b, Expr t, Expr values, Expr norm, const Shape& s) {
  const Expr least = withDim(ops::max(norm * kEpsilon, 1e-290), 1); // [batch, 1]
  const auto body = [&](Builder& in, Expr step, std::span<const ValueId> carried) -> std::vector<ValueId> {
    const Expr y(in, carried[0]), w = at(in, values), i = s.n - 1 - step, zero = fill(in, DType::I32, {}, 0);
    const Expr row = ops::dynamic_slice(at(in, t), {zero, i, zero}, {s.batch, int64_t(1), s.n});
    const Expr sum = withoutDim(ops::matmul(row, y), 1); // [batch, n]
    const Expr index = broadcastTo(withDim(i, 0), {Dim(s.batch)}), e = unit(in, index, s);
    const Expr own = ops::sum(w * ops::complex(e, 0.0), {.dims = std::vector<int64_t>{1}});
    const Expr difference = broadcastTo(withDim(own, 1), w.dims()) - w;
    const Expr floor = broadcastTo(at(in, least), {Dim(s.batch), Dim(s.n)});
    const Expr safe = ops::select(ops::lt(ops::abs(difference), floor), ops::complex(floor, 0.0), difference);
    const Expr column = ops::iota(in, typeOf(in, DType::I32, {s.batch, s.n}), {.dim = 1});
    const Expr right = ops::convert(ops::gt(column, i), DType::F64);
    const Expr next = ops::complex(e, 0.0) - sum / safe * ops::complex(right, 0.0);
    const Expr size = ops::abs(next);
    const Expr scale = withDim(ops::select(ops::gt(size, kLarge), 1.0 / ops::max(size, 1.0), 1.0), 1);
    const Expr written = ops::dynamic_update_slice(y, withDim(next, 1), {zero, i, zero});
    return {written * ops::complex(scale, 0.0)};
  };
  const Expr none = ops::complex(fill(b, DType::F64, {s.batch, s.n, s.n}, 0), 0.0);
  return ops::forLoop(b, int64_t(0), s.n, {none}, body)[0];
}

// Columns of norm 1, whose largest component is real and positive.
Expr normalized(Expr v) {
  const std::vector<int64_t> down{1};
  const Expr size = ops::abs(v), largest = ops::max(size, {.dims = down, .keepdim = true});
  const Expr scaled = v / ops::complex(largest, 0.0);
  const Expr index = ops::argmax(size, {.dim = 1, .keepdim = true});
  const Expr pivot = ops::gather(scaled, index, {.dim = 1});
  const Expr square = ops::square(ops::abs(scaled));
  const Expr length = ops::sqrt(ops::sum(square, {.dims = down, .keepdim = true}));
  return scaled * ops::conj(pivot) / ops::complex(length * ops::abs(pivot), 0.0);
}

ImportResults eig(ImportContext& c) {
  const Expr a = matrixOf(c);
  const bool vectors = c.node.results.size() > 1;
  Shape s{1, staticDims(c.b, {rowCount(a)})[0]};
  for (int64_t d : staticDims(c.b, batchOf(a))) s.batch *= d;
  const auto results = [&](Expr values, Expr v) -> ImportResults {
    if (!vectors) return asResult(c, values);
    return {asResult(c, values, 0), asResult(c, v, 1)};
  };
  if (s.batch * s.n == 0) {
    const Expr values = filled(c.b, c.result().dtype, resultDims(c), 0);
    return vectors ? ImportResults{values, filled(c.b, c.result(1).dtype, resultDims(c, 1), 0)} : values;
  }
  const Expr x = asComplex(reshapeTo(a, {Dim(s.batch), Dim(s.n), Dim(s.n)})), size = ops::abs(x);
  const Expr largest = ops::max(size, {.dims = std::vector<int64_t>{1, 2}, .keepdim = true});
  const Expr scale = ops::select(ops::gt(largest, 0.0), largest, 1.0);
  const Expr squares = ops::square(size / scale); // which neither overflow nor vanish
  const Expr norm = ops::sqrt(ops::sum(squares, {.dims = std::vector<int64_t>{1, 2}}));
  const Schur f = schur(c.b, x / ops::complex(scale, 0.0), norm, s);
  const Expr scaled = diagonal(c.b, f.t, s);
  const Expr values = scaled * ops::complex(withoutDim(scale, 2), 0.0);
  if (!vectors) return results(values, values);
  return results(values, normalized(ops::matmul(f.z, triangleVectors(c.b, f.t, scaled, norm, s))));
}

const ImportRow kEigenRows[] = {
    {"aten.linalg_eig", eig},
    {"aten.linalg_eigvals", eig},
    {"aten._linalg_eigvals", eig},
};

} // namespace
} // namespace aten::linalg

ImportRows torchEigenRows() { return aten::linalg::kEigenRows; }

} // namespace dtc
