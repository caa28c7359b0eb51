#pragma once
// What the pools do along each spatial dim.
#include "ShapeParts.h"
#include <algorithm>

namespace dtc {

// One spatial dim: y[o] sees x[stride * o + dilation * k - low] for k in [0, length), as far as these are elements of x.
struct Pool {
  int64_t size = 0, length = 1, stride = 1, low = 0, high = 0, dilation = 1, result = 0;
  [[nodiscard]] int64_t reach() const { return dilation * (length - 1) + 1; }
  [[nodiscard]] int64_t start(int64_t o) const { return stride * o - low; }
  [[nodiscard]] bool passesEnd() const { return result > 0 && start(result - 1) + reach() > size; }
  // How many places of the window at `begin` count: those below `end`, of which those below 0 if `padded`.
  [[nodiscard]] int64_t count(int64_t begin, bool padded) const {
    const int64_t end = padded ? size + high : size;
    const int64_t last = std::min(length, (std::max<int64_t>(end - begin, 0) + dilation - 1) / dilation);
    const int64_t first =
        padded ? 0 : std::min(length, (std::max<int64_t>(-begin, 0) + dilation - 1) / dilation);
    return std::max<int64_t>(last - first, 0);
  }
  // Does every window have all of its places?
  [[nodiscard]] bool full(bool padded) const {
    return (padded || low == 0) &&
           (result == 0 || start(result - 1) + reach() <= (padded ? size + high : size));
  }
};
using Pools = std::vector<Pool>;
[[nodiscard]] bool poolsOf(const OpQuery&, Pools&);
// Of the op's attributes: the sizes of x; a list with one number of at least `least` per spatial dim, into `member`, which stays
// as it is where the attribute is absent. False: reported.
[[nodiscard]] bool readPoolSizes(const OpQuery&, Pools&);
[[nodiscard]] bool readPoolList(const OpQuery&, const char* name, int64_t least, Pools&,
                                int64_t Pool::* member);

// One spatial dim of an adaptive pool: window o is [begin(o), end(o)) of x, all of which together are x.
struct PoolShare {
  int64_t size = 0, result = 0;
  [[nodiscard]] int64_t begin(int64_t o) const { return o * size / result; }
  [[nodiscard]] int64_t end(int64_t o) const { return ((o + 1) * size + result - 1) / result; }
  [[nodiscard]] bool even() const { return size % result == 0; }
  [[nodiscard]] int64_t longest() const { return even() ? size / result : (size + result - 2) / result + 1; }
};
[[nodiscard]] bool poolSharesOf(const OpQuery&, std::vector<PoolShare>&);
// How long the windows are that the i64 vector `windows` numbers.
[[nodiscard]] ValueId lengthVector(Builder&, const PoolShare&, ValueId windows, DType);

// Integers are summed up in 64 bits, which no average leaves.
[[nodiscard]] DType poolSumType(DType);
void storeAverage(Tensor& out, int64_t i, long double sum, uint64_t whole, int64_t count);

// A vector along spatial dim i as it broadcasts against x.
[[nodiscard]] ValueId alongDim(Builder&, ValueId v, size_t i, size_t rank);

struct Counts { // i64 arithmetic over 0, 1, …
  Builder& b;
  [[nodiscard]] ValueId number(int64_t v) const {
    return b.module.makeLiteral(b.module.attrs.integer(v), DType::I64, b.loc);
  }
  [[nodiscard]] ValueId places(int64_t n) const {
    const TypeId type[] = {b.module.tensorType(DType::I64, {n})};
    return b.module.result(b.op("iota", {}, {{"dim", b.integer(0)}}, type));
  }
  [[nodiscard]] ValueId of(const char* op, ValueId x, int64_t v) const { return b.value(op, {x, number(v)}); }
  [[nodiscard]] ValueId as(ValueId v, DType dtype) const {
    return b.value("convert", {v}, {{"dtype", b.word(dtypeName(dtype))}});
  }
};
// Pool::count of the windows that the i64 vector `results` numbers, at least 1.
[[nodiscard]] ValueId countVector(Builder&, const Pool&, ValueId results, bool padded, DType);

// OpRecord::cut.
bool cutPool(CutOp& op, std::vector<ValueId>& results);
bool cutAdaptivePool(CutOp& op, std::vector<ValueId>& results);

void addAdaptivePoolOps(OpRegistry&);
void addMaxUnpoolOps(OpRegistry&);

} // namespace dtc
