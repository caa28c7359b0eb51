// avg_pool, max_pool and adaptive_avg_pool along cut spatial dims: each device fetches what its windows see.
#include "Pooling.h"
#include "Window.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Scalar.h"

namespace dtc {

namespace {

// Windows of `length` elements, `dilation` apart, along a dim.
struct Windows {
  size_t dim = 0;
  int64_t length = 1, dilation = 1;
};

// What the windows see that begin at the rows `starts` (i64, one for each result), of which, where `lengths` is valid, as many
// elements count as it says: added up. x has numbers for sizes along the dim; nothing that is not counted is looked at.
ValueId sumWindows(CutOp& op, ValueId x, const Windows& w, ValueId starts, ValueId lengths = {}) {
  Builder& b = op.b;
  const Counts c{b};
  const Type type = op.typeOf(x);
  const Dim results = op.typeOf(starts).dims[0];
  auto reshaped = [&](ValueId v, std::vector<Dim> shape) {
    return b.value("reshape", {v}, {{"shape", sizesToAttr(b.module, shape)}});
  };
  const ValueId element = reshaped(c.places(w.length), {Dim(1), Dim(w.length)});
  ValueId at = b.value("add", {reshaped(starts, {results, Dim(1)}), c.of("mul", element, w.dilation)});
  at = c.of("min", c.of("max", at, 0), type.dims[w.dim].value() - 1);
  at = reshaped(at, {Dim(results.value() * w.length)});
  ValueId seen = b.value("index_select", {x, at}, {{"dim", b.integer(static_cast<int64_t>(w.dim))}});
  std::vector<Dim> shape = type.dims;
  shape[w.dim] = results;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(w.dim) + 1, Dim(w.length));
  seen = reshaped(seen, shape);
  if (lengths.valid()) {
    std::vector<Dim> ones(shape.size(), Dim(1));
    ones[w.dim] = results, ones[w.dim + 1] = Dim(w.length);
    const ValueId counts = b.value("lt", {element, reshaped(lengths, {results, Dim(1)})});
    seen = b.value("select", {reshaped(counts, ones), seen, op.scalar(0, seen)});
  }
  const auto over = static_cast<int64_t>(w.dim + 1);
  return op.over("sum", seen, {&over, 1}, false);
}

class PoolCutter {
public:
  PoolCutter(CutOp& op, const Pools& pools)
      : op_(op), b_(op.b), pools_(pools), local_(pools), x_(op.operands[0]), firstRow_(pools.size()),
        firstResult_(pools.size()) {}

  bool fetch(ValueId fill) {
    for (size_t i = 0; i < pools_.size(); ++i) {
      const Pool& p = pools_[i];
      const CutFactor& cut = op_.resultCut(0, i + 2);
      if (!cut.cut()) continue;
      if (p.size == 0 || p.result == 0) return false;
      WindowFetch f(op_, i + 2, cut);
      f.add(rowsSeen(x_, p.size, p.result, p.stride, p.low, p.reach(), fill));
      std::vector<ValueId> buffers;
      if (!f.run(buffers)) return false;
      x_ = buffers[0];
      local_[i].size = f.rows(0);
      local_[i].result = largestPiece(p.result, cut);
      local_[i].low = local_[i].high = 0;
      if (skipsRows(p.stride, p.reach())) local_[i].stride = 1;
      firstRow_[i] = op_.convert(f.firstRow(0), DType::I64);
      firstResult_[i] = op_.convert(f.firstResult(0), DType::I64);
    }
    return true;
  }

  bool average(std::vector<ValueId>& results) {
    const bool padded = op_.whole.boolAttr("count_include_pad");
    const DType dtype = op_.dtypeOf(x_);
    std::vector<size_t> partial;
    for (size_t i = 0; i < pools_.size(); ++i)
      if (op_.resultCut(0, i + 2).cut() && !pools_[i].full(padded)) partial.push_back(i);
    if (!fetch(op_.scalar(0, x_))) return false;
    if (!partial.empty() && !isFloat(dtype)) {
      results.push_back(finished(op_.convert(truncatedAverage(padded), dtype)));
      return true;
    }
    if (!partial.empty()) x_ = op_.wide(x_);
    ValueId y = b_.module.result(pool({{"count_include_pad", b_.boolean(padded)}}));
    // Here every window is full; it is made up for those that are not.
    for (size_t i : partial) {
      const ValueId count = countVector(b_, pools_[i], resultsAlong(i), padded, op_.dtypeOf(y));
      const ValueId share = b_.value("div", {op_.scalar(static_cast<double>(pools_[i].length), y), count});
      y = b_.value("mul", {y, alongDim(b_, share, i, op_.typeOf(y).rank())});
    }
    results.push_back(finished(op_.convert(y, dtype)));
    return true;
  }

  bool greatest(std::vector<ValueId>& results) {
    const DType dtype = op_.dtypeOf(x_);
    const ScalarValue least = reduceIdentity(PendingKind::Max, dtype);
    const ValueId none = isFloat(dtype)
                             ? b_.literal(least.f, dtype)
                             : b_.module.makeLiteral(b_.module.attrs.integer(least.i), dtype, b_.loc);
    if (!fetch(none)) return false;
    const bool indices = op_.whole.boolAttr("indices");
    const OpId made = pool({{"indices", b_.boolean(indices)}});
    const ValueId y = b_.module.result(made);
    results.push_back(finished(y));
    if (!indices) return true;
    // Where all that is seen is the least there is, the filling may have been taken for it: then it is the first place seen.
    const ValueId own = global(op_.convert(b_.module.result(made, 1), DType::I64));
    const ValueId at = b_.value("select", {b_.value("eq", {y, none}), firstSeen(), own});
    results.push_back(finished(op_.convert(at, DType::I32)));
    return true;
  }

private:
  ValueId number(int64_t v) { return integer(op_, v, DType::I64); }

  OpId pool(std::initializer_list<Builder::NamedInput> more) {
    std::vector<int64_t> window, stride, dilation;
    Attr padding;
    padding.kind = Attr::List;
    for (const Pool& p : local_) {
      window.push_back(p.length), stride.push_back(p.stride), dilation.push_back(p.dilation);
      padding.list.push_back(b_.ints(std::array{p.low, p.high}));
    }
    const Builder::NamedInput extra = *more.begin();
    const ValueId operands[] = {x_};
    return b_.op(op_.whole.record->name, operands,
                 {{"window", b_.ints(window)},
                  {"stride", b_.ints(stride)},
                  {"padding", b_.module.attrs.intern(std::move(padding))},
                  {"dilation", b_.ints(dilation)},
                  {"ceil", b_.boolean(op_.whole.boolAttr("ceil"))},
                  extra});
  }

  // Integers truncate once: of the sums over all dims.
  ValueId truncatedAverage(bool padded) {
    ValueId sum = op_.convert(x_, poolSumType(op_.dtypeOf(x_))), count;
    const DType type = op_.dtypeOf(sum);
    const size_t rank = op_.typeOf(sum).rank();
    for (size_t i = 0; i < pools_.size(); ++i) {
      const Pool& p = local_[i];
      std::vector<int64_t> low(rank), high(rank);
      low[i + 2] = p.low;
      high[i + 2] = p.start(p.result - 1) + p.reach() - p.size;
      if (low[i + 2] != 0 || high[i + 2] != 0)
        sum = b_.value("pad", {sum}, {{"low", b_.ints(low)}, {"high", b_.ints(high)}});
      const Counts c{b_};
      sum = sumWindows(op_, sum, {i + 2, p.length, p.dilation}, c.of("mul", c.places(p.result), p.stride));
      const ValueId own = alongDim(b_, countVector(b_, pools_[i], resultsAlong(i), padded, type), i, rank);
      count = count.valid() ? b_.value("mul", {count, own}) : own;
    }
    return b_.value("div", {sum, count});
  }

  // The numbers of the results along spatial dim i that are computed here.
  ValueId resultsAlong(size_t i) {
    const ValueId own = Counts{b_}.places(local_[i].result);
    return firstResult_[i].valid() ? b_.value("add", {own, firstResult_[i]}) : own;
  }

  // Flat places of x from those of the buffer; -1 stays.
  ValueId global(ValueId place) {
    ValueId rest = b_.value("max", {place, number(0)}), flat;
    int64_t step = 1;
    for (size_t i = pools_.size(); i-- > 0;) {
      ValueId at = i == 0 ? rest : b_.value("rem", {rest, number(local_[i].size)});
      if (i > 0) rest = b_.value("floor_div", {rest, number(local_[i].size)});
      if (firstRow_[i].valid()) {
        if (skipsRows(pools_[i].stride, pools_[i].reach())) { // the buffer's rows are results
          at = b_.value("add", {at, firstResult_[i]});
          at = b_.value("sub", {b_.value("mul", {at, number(pools_[i].stride)}), number(pools_[i].low)});
        } else {
          at = b_.value("add", {at, firstRow_[i]});
        }
      }
      at = b_.value("mul", {at, number(step)});
      flat = flat.valid() ? b_.value("add", {flat, at}) : at;
      step *= pools_[i].size;
    }
    return b_.value("select", {b_.value("lt", {place, number(0)}), number(-1), flat});
  }

  // The flat place of the first element that each window sees, -1 of none.
  ValueId firstSeen() {
    ValueId flat, all;
    int64_t step = 1;
    for (size_t i = pools_.size(); i-- > 0;) {
      const Pool& p = pools_[i];
      const ValueId start =
          b_.value("sub", {b_.value("mul", {resultsAlong(i), number(p.stride)}), number(p.low)});
      // As many steps of the dilation as bring it to 0 or more.
      const ValueId before = b_.value("max", {b_.value("neg", {start}), number(0)});
      const ValueId steps =
          b_.value("floor_div", {b_.value("add", {before, number(p.dilation - 1)}), number(p.dilation)});
      const ValueId at = b_.value("add", {start, b_.value("mul", {steps, number(p.dilation)})});
      const ValueId seen =
          b_.value("and", {b_.value("lt", {at, number(p.size)}), b_.value("lt", {steps, number(p.length)})});
      const size_t rank = pools_.size() + 2;
      const ValueId part = alongDim(b_, b_.value("mul", {at, number(step)}), i, rank),
                    inside = alongDim(b_, seen, i, rank);
      flat = flat.valid() ? b_.value("add", {flat, part}) : part;
      all = all.valid() ? b_.value("and", {all, inside}) : inside;
      step *= p.size;
    }
    return b_.value("select", {all, flat, number(-1)});
  }

  ValueId finished(ValueId y) {
    for (size_t i = 0; i < pools_.size(); ++i)
      if (const CutFactor& cut = op_.resultCut(0, i + 2); cut.cut())
        y = trimmed(op_, y, i + 2, pools_[i].result, cut);
    return y;
  }

  CutOp& op_;
  Builder& b_;
  const Pools& pools_;
  Pools local_; // as they slide over the buffer
  ValueId x_;
  std::vector<ValueId> firstRow_, firstResult_; // by spatial dim; invalid where it is not cut
};

// Windows of several lengths are added up one dim after the other; the rest is pooled as on one device.
class AdaptiveCutter {
public:
  AdaptiveCutter(CutOp& op, const std::vector<PoolShare>& shares)
      : op_(op), b_(op.b), shares_(shares), x_(op.operands[0]) {}

  bool write(std::vector<ValueId>& results) {
    const DType dtype = op_.dtypeOf(x_);
    bool uneven = false;
    for (size_t i = 0; i < shares_.size(); ++i) {
      const CutFactor& cut = cutOf(i);
      dims_.push_back({shares_[i].result, {}, {}});
      if (!cut.cut()) continue;
      if (!fetch(i, cut)) return false;
      uneven = uneven || !shares_[i].even();
    }
    // Integers truncate once: of the sums over all dims.
    const bool allSummed = uneven && !isFloat(dtype);
    if (uneven) x_ = op_.convert(x_, allSummed ? poolSumType(dtype) : accumulationType(dtype));
    std::vector<int64_t> sizes;
    ValueId count;
    for (size_t i = 0; i < shares_.size(); ++i) {
      sizes.push_back(dims_[i].results);
      if (!allSummed && (!cutOf(i).cut() || shares_[i].even())) continue;
      const ValueId own = alongDim(b_, sum(i), i, op_.typeOf(x_).rank());
      count = count.valid() ? b_.value("mul", {count, own}) : own;
    }
    if (!allSummed) x_ = b_.value("adaptive_avg_pool", {x_}, {{"output_size", b_.ints(sizes)}});
    if (count.valid()) x_ = b_.value("div", {x_, count});
    x_ = op_.convert(x_, dtype);
    for (size_t i = 0; i < shares_.size(); ++i)
      if (cutOf(i).cut()) x_ = trimmed(op_, x_, i + 2, shares_[i].result, cutOf(i));
    results.push_back(x_);
    return true;
  }

private:
  struct LocalDim {
    int64_t results = 0;
    ValueId firstRow, firstResult; // i64; invalid where it is not cut
  };

  const CutFactor& cutOf(size_t i) const { return op_.resultCut(0, i + 2); }

  // Window o sees the rows from floor(o * size / result) to ceil((o + 1) * size / result) - 1.
  bool fetch(size_t i, const CutFactor& cut) {
    const PoolShare& s = shares_[i];
    WindowRead read{.result = s.result, .scale = s.size, .first = 0, .last = s.size - 1, .divide = s.result};
    read.sources.push_back({.x = x_, .size = s.size});
    WindowFetch f(op_, i + 2, cut);
    f.add(std::move(read));
    std::vector<ValueId> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    dims_[i] = {largestPiece(s.result, cut), op_.convert(f.firstRow(0), DType::I64),
                op_.convert(f.firstResult(0), DType::I64)};
    return true;
  }

  // Adds up along spatial dim i, and gives how many elements each window has.
  ValueId sum(size_t i) {
    const PoolShare& s = shares_[i];
    const Counts c{b_};
    ValueId window = c.places(dims_[i].results);
    if (dims_[i].firstResult.valid()) window = b_.value("add", {window, dims_[i].firstResult});
    ValueId begin = c.of("div", c.of("mul", window, s.size), s.result);
    if (dims_[i].firstRow.valid()) begin = b_.value("sub", {begin, dims_[i].firstRow});
    const DType type = op_.dtypeOf(x_);
    x_ = sumWindows(op_, x_, {i + 2, s.longest()}, begin, lengthVector(b_, s, window, DType::I64));
    return lengthVector(b_, s, window, type);
  }

  CutOp& op_;
  Builder& b_;
  const std::vector<PoolShare>& shares_;
  ValueId x_;
  std::vector<LocalDim> dims_;
};

} // namespace

bool cutAdaptivePool(CutOp& op, std::vector<ValueId>& results) {
  std::vector<PoolShare> shares;
  return poolSharesOf(op.whole, shares) && AdaptiveCutter(op, shares).write(results);
}

bool cutPool(CutOp& op, std::vector<ValueId>& results) {
  Pools pools;
  if (!poolsOf(op.whole, pools)) return false;
  PoolCutter cut(op, pools);
  return std::string_view(op.whole.record->name) == "avg_pool" ? cut.average(results) : cut.greatest(results);
}

} // namespace dtc
