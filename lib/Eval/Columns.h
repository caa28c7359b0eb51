#pragma once
// Scalar expressions over columns: up to kColumn adjacent points of the innermost loop at a time.
#include "dtc/Ops/record/Scalar.h"

namespace dtc {

inline constexpr int64_t kColumn = 256;

// `n` elements from `offset`, `stride` apart, widened as ScalarValue is: floats into `f`, the others into
// `i`.
void loadColumn(const Tensor& t, int64_t offset, int64_t stride, int64_t n, double* f, int64_t* i);
// Rounds (wraps) once to the tensor's dtype. The values are of dtype `from`.
void storeColumn(Tensor& t, int64_t offset, int64_t stride, int64_t n, DType from, const double* f,
                 const int64_t* i);

// A typed expression with storage for one column per node.
class ColumnProgram {
public:
  explicit ColumnProgram(const ScalarExpr& expr);

  struct Point { // the position of the column
    std::span<const Tensor* const> operands;
    std::span<const int64_t> operandOffsets, operandStrides; // per operand, along the column
    std::span<const int64_t> indexStarts, indexStrides;      // per dim of the result
    const double* accFloats = nullptr;                       // the combined values, contiguous
    const int64_t* accInts = nullptr;
  };
  void run(const Point&, int64_t n);
  // Of the last evaluation; dtype() determines which of the two holds the values.
  [[nodiscard]] const double* floats() const { return floatsOf(expr_.nodes.size() - 1); }
  [[nodiscard]] const int64_t* ints() const { return intsOf(expr_.nodes.size() - 1); }
  [[nodiscard]] DType dtype() const { return expr_.nodes.back().dtype; }

private:
  enum class Code : uint8_t { Other, Add, Sub, Mul, Div, Neg };
  [[nodiscard]] double* floatsOf(size_t node) { return floats_.data() + node * kColumn; }
  [[nodiscard]] const double* floatsOf(size_t node) const { return floats_.data() + node * kColumn; }
  [[nodiscard]] int64_t* intsOf(size_t node) { return ints_.data() + node * kColumn; }
  [[nodiscard]] const int64_t* intsOf(size_t node) const { return ints_.data() + node * kColumn; }
  void runLeaf(size_t node, const Point&, int64_t n);
  void runCall(size_t node, int64_t n);
  void runFloatCall(size_t node, int64_t n);
  void runIntCall(size_t node, int64_t n);

  const ScalarExpr& expr_;
  std::vector<Code> codes_;
  std::vector<double> floats_;
  std::vector<int64_t> ints_;
};

} // namespace dtc
