// Tensors from numbers.
#include "aten/Aten.h"
#include "aten/Matrices.h"
#include "aten/Table.h"

#include <cmath>

namespace dtc {
namespace aten::creation {
namespace {

template <int value> ImportResults constantFill(ImportContext& c) {
  return filled(c.b, c.result().dtype, resultDims(c), value);
}

ImportResults fullOf(ImportContext& c) {
  const ArgumentKey key = c.has("fill_value") ? "fill_value" : c.has("value") ? "value" : "s";
  return broadcastTo(tensorOf(in(c, key)), resultDims(c));
}

// start + step * i, exact for integers.
ImportResults arange(ImportContext& c) {
  const Type& type = c.result();
  const Dim n = type.dims.at(0);
  if (isInteger(type.dtype)) {
    const int64_t step = c.has("step") ? c.integer("step") : 1;
    Expr i = counted(c.b, n, type.dtype);
    if (step != 1) i = i * c.literal(step, type.dtype);
    const bool isZero =
        !c.has("start") || (c.is<ImportInt>("start") && c.as<ImportInt>("start", "an integer").isNumber() &&
                            c.integer("start") == 0);
    if (isZero) return i;
    return i + in(c, "start", type.dtype);
  }
  // Counted in f64, as PyTorch does, and rounded once.
  const Expr i = counted(c.b, n, DType::I32).as(DType::F64);
  const double start = c.real("start", 0), step = c.real("step", 1);
  return (i * step + start).as(type.dtype);
}

ImportResults linspace(ImportContext& c) {
  const Type& type = c.result();
  const int64_t n = staticDims(c.b, type.dims).at(0);
  const DType wide = isComplex(type.dtype) ? type.dtype : DType::F64;
  const Expr start = in(c, "start", wide), end = in(c, "end", wide);
  const Expr i = counted(c.b, n, DType::I32).as(DType::F64);
  const double last = std::max<double>(static_cast<double>(n - 1), 1);
  if (isInteger(type.dtype)) { // PyTorch counts from the nearer end, and rounds towards zero
    const Expr from = tensorOf(start), to = tensorOf(end), step = (to - from) / last;
    return ops::select(i < static_cast<double>(n / 2), from + step * i, to - step * (last - i))
        .as(type.dtype);
  }
  const Expr fraction = (i / last).as(wide);
  const Expr rest = (1.0 - i / last).as(wide);
  return (tensorOf(start) * rest + tensorOf(end) * fraction).as(type.dtype);
}

ImportResults logspace(ImportContext& c) {
  const Type& type = c.result();
  const int64_t n = staticDims(c.b, type.dims).at(0);
  if (c.isTensor("start") || c.isTensor("end")) {
    const DType wide = isComplex(type.dtype) ? type.dtype : DType::F64;
    const Expr first = tensorOf(in(c, "start", wide)), last = tensorOf(in(c, "end", wide));
    const Expr fraction =
        (counted(c.b, n, DType::I32).as(DType::F64) / std::max<double>(static_cast<double>(n - 1), 1))
            .as(wide);
    const Expr power = first + (last - first) * fraction;
    return ops::exp(power * std::log(c.real("base", 10))).as(type.dtype);
  }
  const double start = c.real("start"), end = c.real("end"), base = c.real("base", 10);
  Tensor t(DType::F64, {n});
  for (int64_t i = 0; i < n; ++i)
    t.setFloat(
        i, std::pow(base, n > 1 ? start + (end - start) * static_cast<double>(i) / static_cast<double>(n - 1)
                                : start));
  return constantOf(c.b, t).as(type.dtype);
}

ImportResults eye(ImportContext& c) { return linalg::eye(c.b, c.result().dtype, resultDims(c)); }

ImportResults scalarTensor(ImportContext& c) { return tensorOf(in(c, "s")); }

// Rows and columns of the triangle, in row-major order.
template <bool lower> ImportResults triangleIndices(ImportContext& c) {
  const int64_t rows = c.integer("row"), columns = c.integer("col"), offset = c.integer("offset", 0);
  const std::vector<int64_t> shape = staticDims(c.b, resultDims(c));
  constexpr int64_t kMost = 1 << 22;
  if (rows < 0 || columns < 0 || rows > kMost || columns > kMost || shape.at(1) > kMost)
    c.fail("has more than 4 million indices");
  Tensor t(DType::I64, shape);
  int64_t at = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < columns; ++k)
      if ((lower ? k - r <= offset : k - r >= offset) && at < shape[1]) {
        t.setInt(at, r);
        t.setInt(shape[1] + at++, k);
      }
  return constantOf(c.b, t);
}

const ImportRow kRows[] = {
    {"aten.full", fullOf},
    {"aten.full_like", fullOf},
    {"aten.new_full", fullOf},
    {"aten.fill", fullOf},
    {"aten.scalar_tensor", scalarTensor},
    {"aten.zeros", constantFill<0>},
    {"aten._efficientzerotensor", constantFill<0>},
    {"aten.zeros_like", constantFill<0>},
    {"aten.new_zeros", constantFill<0>},
    {"aten._new_zeros_with_same_feature_meta", constantFill<0>},
    {"aten.zero", constantFill<0>},
    {"aten.ones", constantFill<1>},
    {"aten.ones_like", constantFill<1>},
    {"aten.new_ones", constantFill<1>},
    // Memory that PyTorch leaves uninitialized is 0.
    {"aten.empty", constantFill<0>},
    {"aten.empty_like", constantFill<0>},
    {"aten.new_empty", constantFill<0>},
    {"aten.empty_permuted", constantFill<0>},
    {"aten.empty_strided", constantFill<0>},
    {"aten.new_empty_strided", constantFill<0>},
    {"aten.arange", arange},
    {"aten.linspace", linspace},
    {"aten.logspace", logspace},
    {"aten.eye", eye},
    {"aten.tril_indices", triangleIndices<true>},
    {"aten.triu_indices", triangleIndices<false>},
};

} // namespace
} // namespace aten::creation

ImportRows torchCreateRows() { return aten::creation::kRows; }

} // namespace dtc
