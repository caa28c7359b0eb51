#pragma once
// Tensors as text.
#include "dtc/IR/Module.h"
#include "dtc/Support/Tensor.h"
#include <span>
#include <string>

namespace dtc {

struct TensorTextOptions {
  int64_t maxElements = 1000; // larger tensors show only the first and last `edge` along each dim
  int64_t edge = 3;
  int digits = 6; // significant digits of floats
  size_t columns = 80;
};
// "[[1, 2.5], [3, -inf]]", one row of the last dim per line, columns aligned (as NumPy prints); a scalar is
// its number. From rank 3 on a matrix of matrices, each under its indices, "[0, 2, :, :]": the dim before a
// matrix's two goes across, the one before that down, and so on.
[[nodiscard]] std::string tensorText(const Tensor& t, const TensorTextOptions& options = {});
// One element; floats with the fewest digits that parse back to the same value of the dtype.
[[nodiscard]] std::string elementText(const Tensor& t, int64_t i);
// The bytes of a u8 tensor as text, a line for each row of the last dim. Control characters except line breaks and
// tabs, and what is not UTF-8, are written as "\x1b": the text is safe to show on a terminal.
[[nodiscard]] std::string bytesAsText(const Tensor& t);

// "dp=0 tp=3": a device coordinate; "0" on a mesh without axes.
[[nodiscard]] std::string deviceText(const Mesh& mesh, const StringTable& strings, int64_t coordinate);
// The output of a `print` op: its format with {} replaced, or "%x = …" one per line.
[[nodiscard]] std::string printedText(Module& m, OpId op, std::span<const Tensor> values);

} // namespace dtc
