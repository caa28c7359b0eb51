// conv, avg_pool and max_pool along cut spatial dims: each device fetches what its windows see.
#include "Convolution.h"
#include "Pooling.h"
#include "Window.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Scalar.h"

namespace dtc {

namespace {

// What windows of `reach` elements see that begin at stride * o - low, o one of `result`.
WindowRead seenBy(ValueId x, int64_t size, int64_t result, int64_t stride, int64_t low, int64_t reach,
                  ValueId fill) {
  WindowRead r{.result = result, .scale = stride, .first = -low, .last = reach - 1 - low, .fill = fill};
  r.sources.push_back({.x = x, .size = size});
  if (reach > 1 || stride == 1) return r;
  // Of windows of one element that skip some only what they see is sent: a line of results.
  r.scale = 1;
  r.first = r.last = 0;
  WindowSource& s = r.sources[0];
  s.step = stride;
  s.base = low > 0 ? (low + stride - 1) / stride : 0;
  s.offset = stride * s.base - low;
  const int64_t end = size - 1 + low < 0 ? 0 : (size - 1 + low) / stride + 1;
  s.length = std::min(result, end) - s.base;
  return r;
}
bool skips(int64_t stride, int64_t reach) { return reach == 1 && stride > 1; }

ValueId wholeNumber(CutOp& op, int64_t v, DType type) {
  return op.b.module.makeLiteral(op.b.module.attrs.integer(v), type, op.b.loc);
}

// --- conv ---

class ConvCutter {
public:
  ConvCutter(CutOp& op, const ConvShape& s)
      : op_(op), b_(op.b), s_(s), x_(op.operands[0]), w_(op.operands[1]) {}

  bool write(std::vector<ValueId>& results) {
    for (size_t i = 0; i < s_.windows.size(); ++i) {
      const ConvWindow& v = s_.windows[i];
      const CutFactor &y = op_.resultCut(0, i + 2), &k = op_.operandCut(1, i + 2);
      if ((y.cut() || k.cut()) && (v.size == 0 || v.length == 0 || v.result == 0)) return false;
      a_.stride.push_back(v.stride);
      a_.dilation.push_back(v.dilation);
      a_.padding.push_back({v.low, v.high});
      a_.extra.push_back(v.extra);
      if (y.cut() && !(s_.transposed ? spread(i, y) : slide(i, y))) return false;
      if (k.cut() && !sumOver(i, k)) return false;
    }
    std::vector<ValueId> operands = {x_, w_};
    if (op_.operands.size() > 2) operands.push_back(op_.operands[2]);
    std::vector<TypeId> in;
    for (ValueId v : op_.operands) in.push_back(b_.module[v].type);
    ValueId y = buildConv(b_, operands, a_, localGroups(op_.whole, in, op_.results), s_.transposed);
    for (const Piece& p : pieces_) y = pieceOf(y, p);
    for (size_t i = 0; i < s_.windows.size(); ++i)
      if (op_.resultCut(0, i + 2).cut())
        y = trimmed(op_, y, i + 2, s_.windows[i].result, op_.resultCut(0, i + 2));
    results.push_back(y);
    return true;
  }

private:
  // Of what a transposed window gives, the rows from `start` on.
  struct Piece {
    size_t dim = 0;
    ValueId start;
    int64_t size = 0;
  };

  bool fetch(size_t i, const CutFactor& cut, WindowRead read) {
    WindowFetch f(op_, i + 2, cut);
    f.add(std::move(read));
    std::vector<ValueId> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    return true;
  }

  bool slide(size_t i, const CutFactor& cut) {
    const ConvWindow& v = s_.windows[i];
    a_.padding[i] = {0, 0};
    if (skips(v.stride, v.reach())) a_.stride[i] = 1;
    return fetch(i, cut, seenBy(x_, v.size, v.result, v.stride, v.low, v.reach(), op_.scalar(0, x_)));
  }

  // Row t of what the buffer gives is row stride * (its first row) + t - low - front of the result.
  bool spread(size_t i, const CutFactor& cut) {
    const ConvWindow& v = s_.windows[i];
    WindowRead read{
        .result = v.result, .first = v.low - v.reach() + v.stride, .last = v.low, .divide = v.stride};
    read.sources.push_back({.x = x_, .size = v.size});
    read.fill = op_.scalar(0, x_);
    WindowFetch f(op_, i + 2, cut);
    f.add(std::move(read));
    std::vector<ValueId> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    const int64_t piece = largestPiece(v.result, cut), front = std::max<int64_t>(v.stride - v.reach(), 0);
    const int64_t made = v.stride * (f.rows(0) - 1) + v.reach() + front;
    a_.padding[i] = {-front, 0};
    a_.extra[i] = std::max<int64_t>(front + v.reach() - 1 + piece - made, 0);
    const ValueId first = f.firstRow(0), begin = f.firstResult(0);
    const DType type = op_.dtypeOf(first);
    const ValueId seen = b_.value("mul", {first, wholeNumber(op_, v.stride, type)});
    pieces_.push_back(
        {i + 2, b_.value("sub", {b_.value("add", {begin, wholeNumber(op_, v.low + front, type)}), seen}),
         piece});
    return true;
  }

  ValueId pieceOf(ValueId y, const Piece& p) {
    std::vector<Dim> sizes = op_.typeOf(y).dims;
    std::vector<ValueId> operands = {y};
    for (size_t d = 0; d < sizes.size(); ++d)
      operands.push_back(d == p.dim ? p.start : wholeNumber(op_, 0, op_.dtypeOf(p.start)));
    sizes[p.dim] = Dim(p.size);
    return b_.module.result(b_.op("dynamic_slice", operands, {{"sizes", sizesToAttr(b_.module, sizes)}}));
  }

  // The window is cut: each device adds up its own part of it, against what that sees.
  bool sumOver(size_t i, const CutFactor& cut) {
    const ConvWindow& v = s_.windows[i];
    const int64_t steps = v.stride * (v.result - 1);
    WindowRead read{.result = v.length,
                    .scale = v.dilation,
                    .first = -v.low,
                    .last = steps - v.low,
                    .fill = op_.scalar(0, x_)};
    read.sources.push_back({.x = x_, .size = v.size});
    a_.padding[i] = {0, 0};
    if (!fetch(i, cut, std::move(read))) return false;
    if (v.length % cut.devices == 0) return true;
    // The filling of a shorter part must not meet an infinity.
    w_ = b_.value("fill_piece", {w_}, {{"dim", b_.integer(static_cast<int64_t>(i + 2))}});
    const DType type = DType::I64;
    const ValueId own = op_.convert(op_.pieceSize(Dim(v.length), cut.axes), type);
    ValueId seen = b_.value("add", {b_.value("mul", {own, wholeNumber(op_, v.dilation, type)}),
                                    wholeNumber(op_, steps + 1 - v.dilation, type)});
    seen = b_.value("mul", {seen, b_.value("min", {own, wholeNumber(op_, 1, type)})});
    std::vector<Dim> shape(op_.typeOf(x_).rank(), Dim(1));
    shape[i + 2] = op_.typeOf(x_).dims[i + 2];
    const TypeId rows[] = {b_.module.tensorType(type, shape)};
    const ValueId row =
        b_.module.result(b_.op("iota", {}, {{"dim", b_.integer(static_cast<int64_t>(i + 2))}}, rows));
    x_ = b_.value("select", {b_.value("lt", {row, seen}), x_, op_.scalar(0, x_)});
    return true;
  }

  CutOp& op_;
  Builder& b_;
  const ConvShape& s_;
  ValueId x_, w_;
  ConvAttrs a_;
  std::vector<Piece> pieces_;
};

// --- pools ---

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
      f.add(seenBy(x_, p.size, p.result, p.stride, p.low, p.reach(), fill));
      std::vector<ValueId> buffers;
      if (!f.run(buffers)) return false;
      x_ = buffers[0];
      local_[i].size = f.rows(0);
      local_[i].result = largestPiece(p.result, cut);
      local_[i].low = local_[i].high = 0;
      if (skips(p.stride, p.reach())) local_[i].stride = 1;
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
    if (!partial.empty() && !isFloat(dtype)) return false; // integers truncate once
    if (!fetch(op_.scalar(0, x_))) return false;
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
  ValueId number(int64_t v) { return wholeNumber(op_, v, DType::I64); }

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
        if (skips(pools_[i].stride, pools_[i].reach())) { // the buffer's rows are results
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

} // namespace

bool cutConv(CutOp& op, std::vector<ValueId>& results) {
  ConvShape s;
  return convShapeOf(op.whole, s) && ConvCutter(op, s).write(results);
}

bool cutAdaptivePool(CutOp& op, std::vector<ValueId>& results) {
  const Type& x = op.whole.type(0);
  std::vector<int64_t> sizes = op.whole.intsAttr("output_size");
  const std::vector<int64_t> wanted = sizes;
  ValueId y = op.operands[0];
  for (size_t i = 0; i < sizes.size(); ++i) {
    const CutFactor& cut = op.resultCut(0, i + 2);
    if (!cut.cut()) continue;
    const int64_t size = x.dims[i + 2].value(), window = size / wanted[i];
    if (size % wanted[i] != 0) return false;
    WindowFetch fetch(op, i + 2, cut);
    fetch.add(seenBy(y, size, wanted[i], window, 0, window, ValueId()));
    std::vector<ValueId> buffers;
    if (!fetch.run(buffers)) return false;
    y = buffers[0];
    sizes[i] = largestPiece(wanted[i], cut);
  }
  y = op.b.value("adaptive_avg_pool", {y}, {{"output_size", op.b.ints(sizes)}});
  for (size_t i = 0; i < sizes.size(); ++i)
    if (const CutFactor& cut = op.resultCut(0, i + 2); cut.cut()) y = trimmed(op, y, i + 2, wanted[i], cut);
  results.push_back(y);
  return true;
}

bool cutPool(CutOp& op, std::vector<ValueId>& results) {
  Pools pools;
  if (!poolsOf(op.whole, pools)) return false;
  PoolCutter cut(op, pools);
  return std::string_view(op.whole.record->name) == "avg_pool" ? cut.average(results) : cut.greatest(results);
}

} // namespace dtc
