#pragma once
// OpRecord::shard of ops that merge summaries of shards (sharding.md): each device reduces its shard to a
// few values per row, these are combined, and the rest is local.
#include "dtc/Ops/ShardedOp.h"

namespace dtc {

// Per row over `dims` (kept with size 1) of a shard x, in the accumulation dtype: the max of the full row (0
// if it is -inf: the shift of exponentials), and the sum of exp(x - shift) over the full row. A shard that is
// empty or all -inf adds 0. One collective, or two if they transfer less. `extra`: further values per row,
// summed over the devices in the same collective.
struct ExponentialSum {
  Expr shift, sum;
  std::vector<Expr> extra;
};
// The result of a row with +inf: NaN (softmax), or inf (logsumexp).
enum class WhereInfinite : uint8_t { IsNaN, IsInfinite };
[[nodiscard]] ExponentialSum sumExponentials(ShardedOp&, Expr x, std::span<const int64_t> dims, WhereInfinite,
                                             const std::vector<Expr>& extra = {});

// Gathers tensors of one shape and any dtypes along a new dim 0, in one collective: bitcast to 32-bit words
// (64-bit if one needs it), which preserves NaN and every integer.
[[nodiscard]] std::vector<Expr> gatherTogether(ShardedOp&, const std::vector<Expr>& parts);

// The mean of each full row over `dims` (kept with size 1), and the sum of squared deviations, from a shard x
// in the accumulation dtype. Shards are merged by the method of Chan, Golub and LeVeque (1979): one
// collective, or two sums if they transfer less.
struct RowDim {
  int64_t dim = 0; // of x
  Dim globalSize;  // its size over all devices
  const ShardedFactor* factor = nullptr;
};
struct SquaresAboutMean {
  Expr mean, squares;
};
[[nodiscard]] SquaresAboutMean mergeSquares(ShardedOp&, Expr x, std::span<const RowDim> dims);
// The rows over dims of operand 0, and the number of elements of a full one.
[[nodiscard]] std::vector<RowDim> rowDims(const ShardedOp&, std::span<const int64_t> dims);
[[nodiscard]] Expr globalCount(ShardedOp&, Expr like, std::span<const RowDim> dims);

[[nodiscard]] bool shardSoftmax(ShardedOp&, std::vector<ValueId>& results); // softmax, log_softmax
[[nodiscard]] bool shardLogsumexp(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardMoment(ShardedOp&, std::vector<ValueId>& results); // var, std
[[nodiscard]] bool shardNorm(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardLayerNorm(ShardedOp&, std::vector<ValueId>& results); // layer_norm, rms_norm
[[nodiscard]] bool shardCrossEntropy(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardArg(ShardedOp&, std::vector<ValueId>& results); // argmax, argmin
[[nodiscard]] bool shardTopk(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardAttention(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardAttentionGrad(ShardedOp&, std::vector<ValueId>& results);
[[nodiscard]] bool shardSort(ShardedOp&, std::vector<ValueId>& results); // sort, argsort
[[nodiscard]] bool shardScan(ShardedOp&, std::vector<ValueId>& results); // cumsum … cummin

} // namespace dtc
