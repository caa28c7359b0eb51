// Reductions and scans.
#include "import/OnnxContext.h"

#include <limits>

namespace dtc::onnx {

namespace {

struct Dimensions {
  std::vector<int64_t> dims;
  bool keep = true;
  bool none = false; // noop_with_empty_axes
};

Dimensions reduced(OnnxContext& c) {
  const Expr x = c.in(0);
  Dimensions d;
  d.keep = c.integer("keepdims", 1) != 0;
  const auto axes = c.axes(1, "axes");
  if (axes && !axes->empty())
    d.dims = dimsOf(c.b, *axes, x.rank());
  else if (c.integer("noop_with_empty_axes", 0))
    d.none = true;
  else
    d.dims = allDims(x.rank());
  return d;
}

// Sums of integers of fewer than 32 bits are those of the dtype (they wrap), as in NumPy's reference.
ImportResults sumRow(OnnxContext& c) {
  const Dimensions d = reduced(c);
  return d.none ? c.in(0) : sum(c.in(0), {.dims = d.dims, .keepdim = d.keep});
}

ImportResults meanRow(OnnxContext& c) {
  const Dimensions d = reduced(c);
  return d.none ? c.in(0) : mean(c.in(0), {.dims = d.dims, .keepdim = d.keep});
}

ImportResults prodRow(OnnxContext& c) {
  const Dimensions d = reduced(c);
  return d.none ? c.in(0) : prod(c.in(0), {.dims = d.dims, .keepdim = d.keep});
}

template <bool isMax> ImportResults extremeRow(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = c.in(0);
  if (d.none) return x;
  if (isBool(x.dtype()))
    return isMax ? any(x, {.dims = d.dims, .keepdim = d.keep}) : all(x, {.dims = d.dims, .keepdim = d.keep});
  return isMax ? ops::max(x, {.dims = d.dims, .keepdim = d.keep})
               : ops::min(x, {.dims = d.dims, .keepdim = d.keep});
}

ImportResults l1(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = ops::abs(c.in(0));
  return d.none ? x : sum(x, {.dims = d.dims, .keepdim = d.keep});
}

ImportResults sumSquare(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = square(c.in(0));
  return d.none ? x : sum(x, {.dims = d.dims, .keepdim = d.keep});
}

ImportResults l2(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = c.in(0);
  if (!isFloat(x.dtype())) {
    const Expr wide = x.as(DType::F64);
    return (d.none ? ops::abs(wide) : norm(wide, {.dims = d.dims, .keepdim = d.keep})).as(x.dtype());
  }
  return d.none ? ops::abs(x) : norm(x, {.dims = d.dims, .keepdim = d.keep});
}

// Of integers: computed in f64.
Expr inFloats(Expr x) { return isFloat(x.dtype()) ? x : x.as(DType::F64); }

ImportResults logSum(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = c.in(0), wide = inFloats(x);
  return log(d.none ? wide : sum(wide, {.dims = d.dims, .keepdim = d.keep})).as(x.dtype());
}

ImportResults logSumExp(OnnxContext& c) {
  const Dimensions d = reduced(c);
  const Expr x = c.in(0), wide = inFloats(x);
  return d.none ? x : logsumexp(wide, {.dims = d.dims, .keepdim = d.keep}).as(x.dtype());
}

template <bool isMax> ImportResults argRow(OnnxContext& c) {
  Expr x = c.in(0);
  if (x.rank() == 0) return filledInt(c.b, DType::I64, {}, 0);
  const int64_t axis = c.dim(c.integer("axis", 0), x.rank());
  const bool keep = c.integer("keepdims", 1), last = c.integer("select_last_index", 0);
  if (last) x = flip(x, {axis});
  const Expr at =
      (isMax ? argmax(x, {.dim = axis, .keepdim = keep}) : argmin(x, {.dim = axis, .keepdim = keep}))
          .as(DType::I64);
  if (!last) return at;
  const Dim size = x.dims().at(static_cast<size_t>(axis));
  if (!size.isStatic()) c.fail("selects the last index of a symbolic size; bind it with --dim");
  return (size.value() - 1) - at;
}

template <bool isSum> ImportResults scanRow(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t axis = c.dim(c.knownInt(1, "the axis"), x.rank());
  const bool reverse = c.integer("reverse", 0), exclusive = c.integer("exclusive", 0);
  return isSum ? cumsum(x, {.dim = axis, .reverse = reverse, .exclusive = exclusive})
               : cumprod(x, {.dim = axis, .reverse = reverse, .exclusive = exclusive});
}

constexpr OnnxRow kReduceRows[] = {
    {"ReduceSum", sumRow, 1},
    {"ReduceMean", meanRow, 1},
    {"ReduceProd", prodRow, 1},
    {"ReduceMax", extremeRow<true>, 1},
    {"ReduceMin", extremeRow<false>, 1},
    {"ReduceL1", l1, 1},
    {"ReduceL2", l2, 1},
    {"ReduceSumSquare", sumSquare, 1},
    {"ReduceLogSum", logSum, 1},
    {"ReduceLogSumExp", logSumExp, 1},
    {"ArgMax", argRow<true>, 1},
    {"ArgMin", argRow<false>, 1},
    {"CumSum", scanRow<true>, 11},
    {"CumProd", scanRow<false>},
};

} // namespace

std::span<const OnnxRow> reduceRows() { return kReduceRows; }

} // namespace dtc::onnx
