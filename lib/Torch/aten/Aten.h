#pragma once
// What rows of ATen ops share: type promotion and numbers (docs/from-pytorch.md, "What differs").
#include "dtc/Import/rows/Context.h"
#include "dtc/Import/rows/Shapes.h"

namespace dtc::aten {

// The operand as a value of that dtype: a tensor, converted; a Python number; a symbolic size.
[[nodiscard]] Expr in(const ImportContext&, ArgumentKey, DType);
// The same, in the dtype that the node declares for its result.
[[nodiscard]] Expr in(const ImportContext&, ArgumentKey);
// Whether the argument is this number: 1, say, as an integer, a float or a complex number.
[[nodiscard]] bool isNumber(const ImportContext&, ArgumentKey, double);
// torch.result_type of the operands: tensors with dims take precedence over scalars, and these over numbers.
[[nodiscard]] DType promoted(const ImportContext&, std::initializer_list<ArgumentKey>);
[[nodiscard]] DType promoted(DType, DType);
// The conversion of PyTorch: to f8e4m3, which has no infinity, saturates.
[[nodiscard]] Expr converted(Expr, DType);
// At least one operand must be a tensor with an op: `x` if it is one, else its number as a tensor.
[[nodiscard]] inline Expr tensorOf(Expr x) { return materialized(x); }
// An index tensor as i32, with negative indices counted from the end.
[[nodiscard]] Expr indices(Expr, Dim size);
// What sum, mean, prod, amax or amin starts from where it does not include the operand.
[[nodiscard]] Expr neutralOf(const ImportContext&, std::string_view how, DType);
// How often each of these i32 indices [n] is among them, of rows 0 to `size` - 1.
[[nodiscard]] Expr occurrences(Expr, Dim size);
// Whether PyTorch stores the operand in row-major order, as far as the file says.
[[nodiscard]] bool isRowMajor(const ImportContext&, const char* name);
// Dims of a reduction: all where the argument is absent or empty; none of a scalar.
[[nodiscard]] std::vector<int64_t> dims(const ImportContext&, ArgumentKey, size_t rank);
[[nodiscard]] int64_t dim(const ImportContext&, ArgumentKey, size_t rank,
                          std::optional<int64_t> fallback = {});
// The result's shape as the file declares it.
[[nodiscard]] const Dims& resultDims(const ImportContext&, size_t i = 0);
// The compute dtype of ops that integers enter as floats.
[[nodiscard]] DType floatOf(DType);
// x reshaped and converted to the declared result.
[[nodiscard]] Expr asResult(const ImportContext&, Expr, size_t i = 0);
// A list of one value per spatial dim; one value stands for all.
[[nodiscard]] std::vector<int64_t> perDim(const ImportContext&, ArgumentKey, size_t count,
                                          std::optional<int64_t> fallback = {});
// [[1, 2], [1, 2]], the padding of conv and pools.
[[nodiscard]] AttrId paddingAttr(Module&, const std::vector<int64_t>& low, const std::vector<int64_t>& high);
// Where the last operand of a mean, variance, … counts elements.
[[nodiscard]] int64_t countOf(const ImportContext&, Expr x, const std::vector<int64_t>& dims);

// The random numbers of a node that draws: those of dtc, from the argument `seed` (read/Random.h).
[[nodiscard]] Expr seedOf(const ImportContext&);

// --- normalizations ---
//
// PyTorch normalizes f16 and bf16 with f32 parameters or statistics in f32: such an operand, in f32.
[[nodiscard]] Expr normOperand(ImportContext&, Expr);
// The row with its results in the dtypes that the file declares.
[[nodiscard]] ImportResults asDeclared(const ImportContext&, ImportResults);
template <ImportResults (*Row)(ImportContext&)> ImportResults normRow(ImportContext& c) {
  return asDeclared(c, Row(c));
}

} // namespace dtc::aten
