#pragma once
// The geometry of pooling along each spatial dim.
#include "record/ShapeParts.h"
#include <algorithm>

namespace dtc {

// One spatial dim: y[o] reads x[stride * o + dilation * k - low] for k in [0, length), within bounds.
struct Pool {
  int64_t size = 0, length = 1, stride = 1, low = 0, high = 0, dilation = 1, result = 0;
  [[nodiscard]] int64_t reach() const { return dilation * (length - 1) + 1; }
  [[nodiscard]] int64_t start(int64_t o) const { return stride * o - low; }
  [[nodiscard]] bool passesEnd() const { return result > 0 && start(result - 1) + reach() > size; }
  // The number of counted positions of the window at `begin`: those below `end`, including negative ones if
  // `padded`.
  [[nodiscard]] int64_t count(int64_t begin, bool padded) const {
    const int64_t end = padded ? size + high : size;
    const int64_t last = std::min(length, (std::max<int64_t>(end - begin, 0) + dilation - 1) / dilation);
    const int64_t first =
        padded ? 0 : std::min(length, (std::max<int64_t>(-begin, 0) + dilation - 1) / dilation);
    return std::max<int64_t>(last - first, 0);
  }
  // Whether every window is full.
  [[nodiscard]] bool full(bool padded) const {
    return (padded || low == 0) &&
           (result == 0 || start(result - 1) + reach() <= (padded ? size + high : size));
  }
};
using Pools = std::vector<Pool>;
[[nodiscard]] bool poolsOf(const OpQuery&, Pools&);
// From the op's attributes, the sizes of x; a list with one number of at least `lowest` per spatial dim, into
// `member`, which is unchanged if the attribute is absent. False: reported.
[[nodiscard]] bool readPoolSizes(const OpQuery&, Pools&);
[[nodiscard]] bool readPoolList(const OpQuery&, const char* name, int64_t min, Pools&,
                                int64_t Pool::* member);

// One spatial dim of an adaptive pool: window o is [begin(o), end(o)) of x; the windows cover x.
struct PoolShare {
  int64_t size = 0, result = 0;
  [[nodiscard]] int64_t begin(int64_t o) const { return o * size / result; }
  [[nodiscard]] int64_t end(int64_t o) const { return ((o + 1) * size + result - 1) / result; }
  [[nodiscard]] bool even() const { return size % result == 0; }
  [[nodiscard]] int64_t longest() const { return even() ? size / result : (size + result - 2) / result + 1; }
};
[[nodiscard]] bool poolSharesOf(const OpQuery&, std::vector<PoolShare>&);
// The lengths of the windows numbered by the i64 vector `windows`.
[[nodiscard]] Expr lengthVector(const PoolShare&, Expr windows, DType);

// Integers are summed in 64 bits; an average fits the dtype.
[[nodiscard]] DType poolSumType(DType);
void storeAverage(Tensor& out, int64_t i, long double sum, uint64_t integerSum, int64_t count);

// Broadcasts a vector along spatial dim i against x.
[[nodiscard]] Expr alongDim(Expr v, size_t i, size_t rank);

// 0, 1, …: i64[n].
[[nodiscard]] Expr countingVector(Builder&, int64_t n);
// Pool::count of the windows numbered by the i64 vector `results`, at least 1.
[[nodiscard]] Expr countVector(const Pool&, Expr results, bool padded, DType);

// OpRecord::shard.
bool shardPool(ShardedOp& op, std::vector<ValueId>& results);
bool shardAdaptivePool(ShardedOp& op, std::vector<ValueId>& results);

void addAdaptivePoolOps(OpRegistry&);
void addMaxUnpoolOps(OpRegistry&);

} // namespace dtc
