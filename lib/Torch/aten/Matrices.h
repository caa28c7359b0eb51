#pragma once
// Matrices as the last two dims, for the rows of linear algebra.
#include "aten/Aten.h"

namespace dtc::aten::linalg {

inline Expr matrixOf(ImportContext& c) {
  const Expr x = c.tensor(c.has("A") ? "A" : c.has("self") ? "self" : "input");
  if (x.rank() < 2) c.fail("has an operand of rank " + std::to_string(x.rank()) + ", not a matrix");
  return x;
}

inline int64_t rows(Expr x) { return static_cast<int64_t>(x.rank()) - 2; }
inline int64_t columns(Expr x) { return static_cast<int64_t>(x.rank()) - 1; }
inline Dim rowCount(Expr x) { return x.dims().at(x.rank() - 2); }
inline Dim columnCount(Expr x) { return x.dims().at(x.rank() - 1); }
inline Expr transposed(Expr x) { return swapped(x, rows(x), columns(x)); }
inline Expr adjoint(Expr x) { return isComplex(x.dtype()) ? ops::conj(transposed(x)) : transposed(x); }

inline Expr eye(Builder& b, DType d, const Dims& dims) {
  const Expr ones = ops::eye(b, checkedType(b, partType(d), dims));
  return isComplex(d) ? ones.as(d) : ones;
}

inline Expr identity(Builder& b, DType d, Dim n, const Dims& batch) {
  Dims dims = batch;
  dims.push_back(n), dims.push_back(n);
  return broadcastTo(eye(b, d, {n, n}), dims);
}

inline Dims batchOf(Expr x) { return {x.dims().begin(), x.dims().end() - 2}; }
inline Expr noInfo(ImportContext& c, const Dims& batch) { return filled(c.b, DType::I32, batch, 0); }

inline Expr withBatch(Builder& b, Expr x, const Dims& batch) {
  Dims dims = broadcastDims(b, batch, batchOf(x));
  dims.push_back(rowCount(x)), dims.push_back(columnCount(x));
  return broadcastTo(x, dims);
}

// x with a x = b, by LU (Lu.cpp).
[[nodiscard]] Expr solved(ImportContext&, Expr a, Expr b);
[[nodiscard]] Expr inverted(ImportContext&, Expr a);

} // namespace dtc::aten::linalg
