#pragma once
// Tensors as people read them.
#include "dtc/IR/Module.h"
#include "dtc/Support/Tensor.h"
#include <span>
#include <string>

namespace dtc {

struct TensorTextOptions {
  int64_t whole = 1000; // tensors of more elements show the first and last `edge` along each dim
  int64_t edge = 3;
  int digits = 6; // significant ones, of floats
  size_t columns = 80;
};
// "[[1, 2.5], [3, -inf]]", one row of the last dim a line, columns aligned (as NumPy prints); a scalar is its number. From
// rank 3 on a matrix of matrices, each under its indices, "[0, 2, :, :]": the dim before a matrix's two goes across, the
// one before that down, and so on.
[[nodiscard]] std::string tensorText(const Tensor& t, const TensorTextOptions& options = {});
// One element, floats in the fewest digits that read back as the same value of the dtype.
[[nodiscard]] std::string elementText(const Tensor& t, int64_t i);

// "dp=0 tp=3": the coordinates of a place; "0" on a mesh without axes.
[[nodiscard]] std::string deviceText(const Mesh& mesh, const StringTable& strings, int64_t place);
// What a `print` op says of its operands' values: its format with {} filled in, or "%x = …" a line each.
[[nodiscard]] std::string printedText(Module& m, OpId op, std::span<const Tensor> values);

} // namespace dtc
