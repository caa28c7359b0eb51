// avg_pool, max_pool and adaptive_avg_pool along sharded spatial dims: each device fetches the rows that its
// windows read.
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/record/Scalar.h"
#include "window/Pooling.h"
#include "window/Window.h"

namespace dtc {

namespace {

// Windows of `length` elements, `dilation` apart, along a dim.
struct Windows {
  size_t dim = 0;
  int64_t length = 1, dilation = 1;
};

// The sums over the windows that begin at the rows `starts` (i64, one per result), each of `lengths` elements
// if that is valid. x has static sizes along the dim; elements beyond a window's length are not read.
Expr sumWindows(ShardedOp& op, Expr x, const Windows& w, Expr starts, Expr lengths = {}) {
  const Type type = x.type();
  const Dim results = starts.dims()[0];
  const Expr element = reshape(countingVector(op.b, w.length), {Dim(1), Dim(w.length)});
  Expr at = reshape(starts, {results, Dim(1)});
  at = at + element * w.dilation;
  at = min(max(at, 0), type.dims[w.dim].value() - 1);
  at = reshape(at, {Dim(results.value() * w.length)});
  Expr seen = index_select(x, at, {.dim = w.dim});
  std::vector<Dim> shape = type.dims;
  shape[w.dim] = results;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(w.dim) + 1, Dim(w.length));
  seen = reshape(seen, shape);
  if (lengths.valid()) {
    std::vector<Dim> ones(shape.size(), Dim(1));
    ones[w.dim] = results, ones[w.dim + 1] = Dim(w.length);
    const Expr counts = element < reshape(lengths, {results, Dim(1)});
    seen = select(reshape(counts, ones), seen, 0);
  }
  return sum(seen, {.dims = {static_cast<int64_t>(w.dim + 1)}});
}

class ShardedPool {
public:
  ShardedPool(ShardedOp& op, const Pools& pools)
      : op_(op), b_(op.b), pools_(pools), local_(pools), x_(op.operand(0)), firstRow_(pools.size()),
        firstResult_(pools.size()) {}

  bool fetch(ValueId fill) {
    for (size_t i = 0; i < pools_.size(); ++i) {
      const Pool& p = pools_[i];
      const ShardedFactor& factor = op_.resultFactor(0, i + 2);
      if (!factor.isSharded()) continue;
      if (p.size == 0 || p.result == 0) return false;
      WindowFetch f(op_, i + 2, factor);
      f.add(rowsSeen(x_, p.size, p.result, p.stride, p.low, p.reach(), fill));
      std::vector<Expr> buffers;
      if (!f.run(buffers)) return false;
      x_ = buffers[0];
      local_[i].size = f.rows(0);
      local_[i].result = largestShard(p.result, factor);
      local_[i].low = local_[i].high = 0;
      if (skipsRows(p.stride, p.reach())) local_[i].stride = 1;
      firstRow_[i] = op_.convert(f.firstRow(0), DType::I64);
      firstResult_[i] = op_.convert(f.firstResult(0), DType::I64);
    }
    return true;
  }

  bool average(std::vector<ValueId>& results) {
    const bool padded = op_.global.boolAttr("count_include_pad");
    const DType dtype = op_.dtypeOf(x_);
    std::vector<size_t> partial;
    for (size_t i = 0; i < pools_.size(); ++i)
      if (op_.resultFactor(0, i + 2).isSharded() && !pools_[i].full(padded)) partial.push_back(i);
    if (!fetch(x_.literal(0))) return false;
    if (!partial.empty() && !isFloat(dtype)) {
      results.push_back(finished(op_.convert(truncatedAverage(padded), dtype)));
      return true;
    }
    if (!partial.empty()) x_ = op_.wide(x_);
    const LocalWindows w = windows();
    Expr y = avg_pool(x_, {.window = w.length,
                           .stride = w.stride,
                           .padding = w.padding,
                           .dilation = w.dilation,
                           .ceil = op_.global.boolAttr("ceil"),
                           .count_include_pad = padded});
    // Treats every window as full, and compensates for those that are not.
    for (size_t i : partial) {
      const Expr count = countVector(pools_[i], resultsAlong(i), padded, y.dtype());
      y = y * alongDim(pools_[i].length / count, i, y.rank());
    }
    results.push_back(finished(op_.convert(y, dtype)));
    return true;
  }

  bool maximum(std::vector<ValueId>& results) {
    const DType dtype = op_.dtypeOf(x_);
    const ScalarValue lowest = reduceIdentity(PendingKind::Max, dtype);
    const Expr none =
        op_.value(isFloat(dtype) ? b_.literal(lowest.f, dtype)
                                 : b_.module.makeLiteral(b_.module.attrs.integer(lowest.i), dtype, b_.loc));
    if (!fetch(none)) return false;
    const bool indices = op_.global.boolAttr("indices");
    const LocalWindows w = windows();
    const auto [y, found] = max_pool(x_, {.window = w.length,
                                          .stride = w.stride,
                                          .padding = w.padding,
                                          .dilation = w.dilation,
                                          .ceil = op_.global.boolAttr("ceil"),
                                          .indices = indices});
    results.push_back(finished(y));
    if (!indices) return true;
    // If all elements of a window equal the min, the padding may have been selected: the first valid position
    // is used then.
    const Expr own = global(found.as(DType::I64)), isNone = eq(y, none);
    results.push_back(finished(select(isNone, firstSeen(), own).as(DType::I32)));
    return true;
  }

private:
  struct LocalWindows {
    std::vector<int64_t> length, stride, dilation;
    AttrId padding;
  };
  [[nodiscard]] LocalWindows windows() const {
    LocalWindows w;
    std::vector<AttrId> padding;
    for (const Pool& p : local_) {
      w.length.push_back(p.length), w.stride.push_back(p.stride), w.dilation.push_back(p.dilation);
      padding.push_back(b_.ints(std::array{p.low, p.high}));
    }
    w.padding = b_.module.attrs.list(std::move(padding));
    return w;
  }

  // Integers truncate once, after the sums over all dims.
  Expr truncatedAverage(bool padded) {
    Expr sum = x_.as(poolSumType(x_.dtype())), count;
    const DType type = sum.dtype();
    const size_t rank = sum.rank();
    for (size_t i = 0; i < pools_.size(); ++i) {
      const Pool& p = local_[i];
      std::vector<int64_t> low(rank), high(rank);
      low[i + 2] = p.low;
      high[i + 2] = p.start(p.result - 1) + p.reach() - p.size;
      if (low[i + 2] != 0 || high[i + 2] != 0) sum = pad(sum, {.low = low, .high = high});
      const Expr starts = countingVector(b_, p.result) * p.stride;
      sum = sumWindows(op_, sum, {i + 2, p.length, p.dilation}, starts);
      const Expr own = alongDim(countVector(pools_[i], resultsAlong(i), padded, type), i, rank);
      count = count.valid() ? count * own : own;
    }
    return sum / count;
  }

  // The indices of the results along spatial dim i that are computed here.
  Expr resultsAlong(size_t i) {
    const Expr own = countingVector(b_, local_[i].result);
    return firstResult_[i].valid() ? own + firstResult_[i] : own;
  }

  // Flat indices in x from those in the buffer; -1 is kept.
  Expr global(Expr position) {
    Expr rest = max(position, 0), flat;
    int64_t step = 1;
    for (size_t i = pools_.size(); i-- > 0;) {
      Expr at = i == 0 ? rest : rest % local_[i].size;
      if (i > 0) rest = floor_div(rest, local_[i].size);
      if (firstRow_[i].valid()) {
        if (skipsRows(pools_[i].stride, pools_[i].reach())) { // the buffer's rows are results
          at = at + firstResult_[i];
          at = at * pools_[i].stride - pools_[i].low;
        } else {
          at = at + firstRow_[i];
        }
      }
      at = at * step;
      flat = flat.valid() ? flat + at : at;
      step *= pools_[i].size;
    }
    return select(position < 0, -1, flat);
  }

  // The flat index of the first element in each window, -1 if there is none.
  Expr firstSeen() {
    Expr flat, all;
    int64_t step = 1;
    for (size_t i = pools_.size(); i-- > 0;) {
      const Pool& p = pools_[i];
      const Expr start = resultsAlong(i) * p.stride - p.low;
      // The number of dilation steps that make it nonnegative.
      const Expr before = max(-start, 0);
      const Expr steps = floor_div(before + (p.dilation - 1), p.dilation);
      const Expr at = start + steps * p.dilation;
      const Expr begun = at < p.size, seen = begun & (steps < p.length);
      const size_t rank = pools_.size() + 2;
      const Expr part = alongDim(at * step, i, rank), inside = alongDim(seen, i, rank);
      flat = flat.valid() ? flat + part : part;
      all = all.valid() ? all & inside : inside;
      step *= p.size;
    }
    return select(all, flat, -1);
  }

  Expr finished(Expr y) {
    for (size_t i = 0; i < pools_.size(); ++i)
      if (const ShardedFactor& factor = op_.resultFactor(0, i + 2); factor.isSharded())
        y = trimmed(y, i + 2, pools_[i].result, factor);
    return y;
  }

  ShardedOp& op_;
  Builder& b_;
  const Pools& pools_;
  Pools local_; // over the buffer
  Expr x_;
  std::vector<Expr> firstRow_, firstResult_; // by spatial dim; invalid if it is unsharded
};

// Windows of different lengths are summed one dim after the other; the rest is pooled as on one device.
class ShardedAdaptivePool {
public:
  ShardedAdaptivePool(ShardedOp& op, const std::vector<PoolShare>& shares)
      : op_(op), b_(op.b), shares_(shares), x_(op.operand(0)) {}

  bool write(std::vector<ValueId>& results) {
    const DType dtype = op_.dtypeOf(x_);
    bool uneven = false;
    for (size_t i = 0; i < shares_.size(); ++i) {
      const ShardedFactor& factor = shardedOf(i);
      dims_.push_back({shares_[i].result, {}, {}});
      if (!factor.isSharded()) continue;
      if (!fetch(i, factor)) return false;
      uneven = uneven || !shares_[i].even();
    }
    // Integers truncate once, after the sums over all dims.
    const bool allSummed = uneven && !isFloat(dtype);
    if (uneven) x_ = op_.convert(x_, allSummed ? poolSumType(dtype) : accumulationType(dtype));
    std::vector<int64_t> sizes;
    Expr count;
    for (size_t i = 0; i < shares_.size(); ++i) {
      sizes.push_back(dims_[i].results);
      if (!allSummed && (!shardedOf(i).isSharded() || shares_[i].even())) continue;
      const Expr own = alongDim(sum(i), i, x_.rank());
      count = count.valid() ? count * own : own;
    }
    if (!allSummed) x_ = adaptive_avg_pool(x_, sizes);
    if (count.valid()) x_ = x_ / count;
    x_ = op_.convert(x_, dtype);
    for (size_t i = 0; i < shares_.size(); ++i)
      if (shardedOf(i).isSharded()) x_ = trimmed(x_, i + 2, shares_[i].result, shardedOf(i));
    results.push_back(x_);
    return true;
  }

private:
  struct LocalDim {
    int64_t results = 0;
    Expr firstRow, firstResult; // i64; invalid if unsharded
  };

  const ShardedFactor& shardedOf(size_t i) const { return op_.resultFactor(0, i + 2); }

  // Window o covers the rows from floor(o * size / result) to ceil((o + 1) * size / result) - 1.
  bool fetch(size_t i, const ShardedFactor& factor) {
    const PoolShare& s = shares_[i];
    WindowRead read{.result = s.result, .scale = s.size, .first = 0, .last = s.size - 1, .divide = s.result};
    read.sources.push_back({.x = x_, .size = s.size});
    WindowFetch f(op_, i + 2, factor);
    f.add(std::move(read));
    std::vector<Expr> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    dims_[i] = {largestShard(s.result, factor), op_.convert(f.firstRow(0), DType::I64),
                op_.convert(f.firstResult(0), DType::I64)};
    return true;
  }

  // Sums along spatial dim i, and returns the number of elements of each window.
  Expr sum(size_t i) {
    const PoolShare& s = shares_[i];
    Expr window = countingVector(b_, dims_[i].results);
    if (dims_[i].firstResult.valid()) window = window + dims_[i].firstResult;
    Expr begin = window * s.size / s.result;
    if (dims_[i].firstRow.valid()) begin = begin - dims_[i].firstRow;
    const DType type = x_.dtype();
    x_ = sumWindows(op_, x_, {i + 2, s.longest()}, begin, lengthVector(s, window, DType::I64));
    return lengthVector(s, window, type);
  }

  ShardedOp& op_;
  Builder& b_;
  const std::vector<PoolShare>& shares_;
  Expr x_;
  std::vector<LocalDim> dims_;
};

} // namespace

bool shardAdaptivePool(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<PoolShare> shares;
  return poolSharesOf(op.global, shares) && ShardedAdaptivePool(op, shares).write(results);
}

bool shardPool(ShardedOp& op, std::vector<ValueId>& results) {
  Pools pools;
  if (!poolsOf(op.global, pools)) return false;
  ShardedPool pool(op, pools);
  return std::string_view(op.global.record->name) == "avg_pool" ? pool.average(results)
                                                                : pool.maximum(results);
}

} // namespace dtc
