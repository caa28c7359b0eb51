// Matrix products.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

// Integers of few bits are multiplied and summed in their own dtype, as in NumPy's reference.
ImportResults matMul(OnnxContext& c) {
  Expr a = c.in(0), b = c.in(1);
  const bool row = a.rank() == 1, column = b.rank() == 1; // vectors
  if (row) a = withDim(a, 0);
  if (column) b = withDim(b, 1);
  Expr y = matmul(a, b);
  const auto rank = static_cast<int64_t>(y.rank());
  if (column) y = withoutDim(y, rank - 1);
  return row ? withoutDim(y, rank - 2) : y;
}

ImportResults gemm(OnnxContext& c) {
  const Expr a = c.in(0), b = c.in(1);
  const double alpha = c.real("alpha", 1.0), beta = c.real("beta", 1.0);
  const auto number = [&](double v) { return isFloat(a.dtype()) ? Arg(v) : Arg(static_cast<int64_t>(v)); };
  Expr y =
      matmul(a, b, {.transpose_a = c.integer("transA", 0) != 0, .transpose_b = c.integer("transB", 0) != 0});
  if (alpha != 1.0) y = y * number(alpha);
  if (!c.has(2) || beta == 0.0) return y;
  const Expr bias = c.in(2);
  return y + (beta == 1.0 ? bias : bias * number(beta));
}

// Upper-case letters are letters too; blanks are dropped. Without an arrow the result has the letters that occur
// once, in alphabetic order.
std::string equation(OnnxContext& c) {
  std::string text;
  for (char ch : c.text("equation", ""))
    if (ch != ' ') text.push_back(ch);
  if (text.find("->") != std::string::npos) return text;
  std::string out;
  for (int ch = 'A'; ch <= 'z'; ++ch)
    if (std::isalpha(ch) && std::count(text.begin(), text.end(), ch) == 1)
      out.push_back(static_cast<char>(ch));
  return text + "->" + (text.find("...") != std::string::npos ? "..." : "") + out;
}

ImportResults einsumRow(OnnxContext& c) { return einsum(c.b, c.operands(), equation(c)); }

// Determinant: the product of U's diagonal, with the sign of the permutation.
ImportResults det(OnnxContext& c) {
  const Expr x = c.in(0);
  if (x.rank() < 2) c.fail("has an operand that is not a matrix");
  const auto rank = static_cast<int64_t>(x.rank());
  const Dim n = x.dims().back();
  const auto [factors, pivots, permutation, info] = lu(x);
  const Expr unit = eye(c.b, checkedType(c.b, x.dtype(), {n, n}));
  const Expr diagonal = sum(factors * unit, {.dims = {rank - 1}});
  const Expr swapped = ne(pivots, counted(c.b, n, pivots.dtype()));
  return prod(select(swapped, -diagonal, diagonal), {.dims = {rank - 2}});
}

constexpr OnnxRow kContractRows[] = {
    {"MatMul", matMul, 1}, {"Gemm", gemm, 6}, {"Einsum", einsumRow, 12}, {"Det", det, 11}};

} // namespace

std::span<const OnnxRow> contractRows() { return kContractRows; }

} // namespace dtc::onnx
