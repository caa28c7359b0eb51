#pragma once
// Common data movement over Expr, for rows of importers. Each function returns its operand where there is
// nothing to do. Errors are those of the Builder (Builder::forFile).
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

using Dims = std::vector<Dim>;

// A type of at most 2^63-1 bytes; an error otherwise.
[[nodiscard]] TypeId checkedType(Builder&, DType, const Dims&);
[[nodiscard]] bool isStatic(const Dims&);
[[nodiscard]] std::vector<int64_t> staticDims(Builder&, const Dims&); // an error for symbolic sizes
// The number of elements; an error if it is not a size (symbols of sharded sizes, overflow).
[[nodiscard]] Dim elementsOf(Builder&, const Dims&);
// A dim counted from the end where it is negative; an error if it is out of range. A scalar has dims 0 and -1,
// as in NumPy's and PyTorch's reductions: 0.
[[nodiscard]] int64_t dimOf(Builder&, int64_t dim, size_t rank);
[[nodiscard]] std::vector<int64_t> dimsOf(Builder&, std::span<const int64_t> dims, size_t rank);
[[nodiscard]] std::vector<int64_t> allDims(size_t rank, size_t first = 0);
[[nodiscard]] Dims broadcastDims(Builder&, const Dims&, const Dims&); // of two shapes, as in NumPy

[[nodiscard]] Expr reshapeTo(Expr, const Dims&);
[[nodiscard]] Expr broadcastTo(Expr, const Dims&);
[[nodiscard]] Expr permuted(Expr, std::span<const int64_t> perm);
[[nodiscard]] Expr swapped(Expr, int64_t a, int64_t b); // two dims
[[nodiscard]] Expr moved(Expr, int64_t from, int64_t to);
[[nodiscard]] Expr withDim(Expr, int64_t dim);    // a new dim of size 1
[[nodiscard]] Expr withoutDim(Expr, int64_t dim); // of size 1
[[nodiscard]] Expr withRank(Expr, size_t rank);   // leading dims of size 1
// Elements start, start + stride, … below `limit` of one dim.
[[nodiscard]] Expr sliceOf(Expr, int64_t dim, int64_t start, Dim limit, int64_t stride = 1);
[[nodiscard]] Expr concatOf(Builder&, const std::vector<Expr>&, int64_t dim); // of one: itself
// x with i + size where i < 0.
[[nodiscard]] Expr wrappedIndices(Expr indices, Dim size);
// 0, 1, 2, … along the only dim.
[[nodiscard]] Expr counted(Builder&, Dim size, DType = DType::I32);

// A value in every element.
[[nodiscard]] Expr filled(Builder&, DType, const Dims&, double);
[[nodiscard]] Expr filledInt(Builder&, DType, const Dims&, int64_t);
// A literal or a symbolic size as a tensor; any other value itself.
[[nodiscard]] Expr materialized(Expr);
[[nodiscard]] Expr constantOf(Builder&, const Tensor&);
// The attribute of a `constant`: a number where all are equal, a list of a few, or else their bytes.
[[nodiscard]] AttrId tensorAttr(Module&, const Tensor&);

} // namespace dtc
