#pragma once
// OpRecord::cut of ops that merge summaries of pieces (sharding.md §2): each device sums its piece up in a few numbers a row, the
// summaries are put together, and the rest is local again.
#include "dtc/IR/CutOp.h"

namespace dtc {

// What merges compute with.
struct Arithmetic {
  Builder& b;
  ValueId add(ValueId x, ValueId y) const { return b.value("add", {x, y}); }
  ValueId sub(ValueId x, ValueId y) const { return b.value("sub", {x, y}); }
  ValueId mul(ValueId x, ValueId y) const { return b.value("mul", {x, y}); }
  ValueId div(ValueId x, ValueId y) const { return b.value("div", {x, y}); }
  ValueId exp(ValueId x) const { return b.value("exp", {x}); }
  ValueId log(ValueId x) const { return b.value("log", {x}); }
};

// Row by row over `dims` (which stay, with size 1) of a piece x, in the accumulation dtype: the greatest element of the whole
// row (0 where it is -inf: what exponentials are shifted by), and the sum of exp(x - shift) over the whole row. A piece that is
// empty or all -inf adds 0. One collective, or two where they move less.
// `extra`: other numbers a row, which are summed over the devices and travel in the same collective.
struct ExponentialSum {
  ValueId shift, sum;
  std::vector<ValueId> extra;
};
// What becomes of a row with +inf: NaN (softmax), or inf (logsumexp).
enum class WhereInfinite : uint8_t { IsNaN, IsInfinite };
[[nodiscard]] ExponentialSum sumExponentials(CutOp&, ValueId x, std::span<const int64_t> dims, WhereInfinite,
                                             std::span<const ValueId> extra = {});

// Tensors of one shape, of any dtypes, what each device has along a new dim 0, in one collective: as words of 32 bits (of 64
// where one has as many) of the values, which keep NaN and every integer.
[[nodiscard]] std::vector<ValueId> gatherTogether(CutOp&, std::span<const ValueId> parts);

// The mean of each whole row over `dims` (which stay, with size 1), and the sum of squares about it, of a piece x in the
// accumulation dtype. Pieces are put together as Chan, Golub and LeVeque do (1979): one collective, or two that sum where those
// move less.
struct RowDim {
  int64_t dim = 0; // of x
  Dim whole;       // its size on all devices together
  const CutFactor* cut = nullptr;
};
struct SquaresAboutMean {
  ValueId mean, squares;
};
[[nodiscard]] SquaresAboutMean mergeSquares(CutOp&, ValueId x, std::span<const RowDim> dims);
// The rows over dims of operand 0; how many elements a whole one has.
[[nodiscard]] std::vector<RowDim> rowDims(const CutOp&, std::span<const int64_t> dims);
[[nodiscard]] ValueId wholeCount(CutOp&, ValueId like, std::span<const RowDim> dims);

[[nodiscard]] bool cutSoftmax(CutOp&, std::vector<ValueId>& results); // softmax, log_softmax
[[nodiscard]] bool cutLogsumexp(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutMoment(CutOp&, std::vector<ValueId>& results); // var, std
[[nodiscard]] bool cutNorm(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutLayerNorm(CutOp&, std::vector<ValueId>& results); // layer_norm, rms_norm
[[nodiscard]] bool cutCrossEntropy(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutArg(CutOp&, std::vector<ValueId>& results); // argmax, argmin
[[nodiscard]] bool cutTopk(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutAttention(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutAttentionGrad(CutOp&, std::vector<ValueId>& results);
[[nodiscard]] bool cutSort(CutOp&, std::vector<ValueId>& results); // sort, argsort
[[nodiscard]] bool cutScan(CutOp&, std::vector<ValueId>& results); // cumsum … cummin

} // namespace dtc
