// conv along sharded dims: each device fetches the rows that its windows read, or computes a partial sum over
// its part of the window.
#include "dtc/IR/LocalShape.h"
#include "window/Convolution.h"
#include "window/Window.h"

namespace dtc {

namespace {

class ShardedConv {
public:
  ShardedConv(ShardedOp& op, const ConvShape& s)
      : op_(op), b_(op.b), s_(s), x_(op.operand(0)), w_(op.operand(1)) {}

  bool write(std::vector<ValueId>& results) {
    for (size_t i = 0; i < s_.windows.size(); ++i) {
      const ConvWindow& v = s_.windows[i];
      const ShardedFactor &y = op_.resultFactor(0, i + 2), &k = op_.operandFactor(1, i + 2);
      if ((y.isSharded() || k.isSharded()) && (v.size == 0 || v.length == 0 || v.result == 0)) return false;
      a_.stride.push_back(v.stride);
      a_.dilation.push_back(v.dilation);
      a_.padding.push_back({v.low, v.high});
      a_.extra.push_back(v.extra);
      if (y.isSharded() && !(s_.transposed ? spread(i, y) : slide(i, y))) return false;
      if (k.isSharded() && !sumOver(i, k)) return false;
    }
    Expr y = sumOfTerms();
    for (const ResultRows& p : shards_) y = rowsOf(y, p);
    for (size_t i = 0; i < s_.windows.size(); ++i)
      if (op_.resultFactor(0, i + 2).isSharded())
        y = trimmed(y, i + 2, s_.windows[i].result, op_.resultFactor(0, i + 2));
    results.push_back(y);
    return true;
  }

private:
  // For a transposed window, the result rows from `start` on.
  struct ResultRows {
    size_t dim = 0;
    Expr start;
    int64_t size = 0;
  };

  bool fetch(size_t i, const ShardedFactor& factor, WindowRead read) {
    WindowFetch f(op_, i + 2, factor);
    f.add(std::move(read));
    std::vector<Expr> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    return true;
  }

  bool slide(size_t i, const ShardedFactor& factor) {
    const ConvWindow& v = s_.windows[i];
    a_.padding[i] = {0, 0};
    if (skipsRows(v.stride, v.reach())) a_.stride[i] = 1;
    return fetch(i, factor, rowsSeen(x_, v.size, v.result, v.stride, v.low, v.reach(), x_.literal(0)));
  }

  // Row t of the buffer's result is row stride * (its first row) + t - low - front of the result.
  bool spread(size_t i, const ShardedFactor& factor) {
    const ConvWindow& v = s_.windows[i];
    WindowRead read{
        .result = v.result, .first = v.low - v.reach() + v.stride, .last = v.low, .divide = v.stride};
    read.sources.push_back({.x = x_, .size = v.size});
    read.fill = x_.literal(0);
    WindowFetch f(op_, i + 2, factor);
    f.add(std::move(read));
    std::vector<Expr> buffers;
    if (!f.run(buffers)) return false;
    x_ = buffers[0];
    const int64_t shardSize = largestShard(v.result, factor),
                  front = std::max<int64_t>(v.stride - v.reach(), 0);
    const int64_t made = v.stride * (f.rows(0) - 1) + v.reach() + front;
    a_.padding[i] = {-front, 0};
    a_.extra[i] = std::max<int64_t>(front + v.reach() - 1 + shardSize - made, 0);
    const Expr first = f.firstRow(0), begin = f.firstResult(0);
    const Expr seen = first * v.stride;
    shards_.push_back({i + 2, begin + (v.low + front) - seen, shardSize});
    return true;
  }

  Expr rowsOf(Expr y, const ResultRows& p) {
    std::vector<Dim> sizes = y.dims();
    std::vector<ops::Arg> starts(sizes.size(), p.start.literal(0));
    starts[p.dim] = p.start;
    sizes[p.dim] = Dim(p.size);
    return dynamic_slice(y, starts, sizes);
  }

  // The window is sharded: each device sums over its own part of it, with the rows that this part reads.
  bool sumOver(size_t i, const ShardedFactor& factor) {
    const ConvWindow& v = s_.windows[i];
    WindowRead read{.result = v.length,
                    .scale = v.dilation,
                    .first = -v.low,
                    .last = v.stride * (v.result - 1) - v.low,
                    .fill = x_.literal(0)};
    read.sources.push_back({.x = x_, .size = v.size});
    a_.padding[i] = {0, 0};
    if (!fetch(i, factor, std::move(read))) return false;
    if (v.length % factor.devices == 0) return true;
    w_ = fill_piece(w_, {.dim = i + 2});
    unevenSums_.push_back(i);
    return true;
  }

  // A part of the window, with the rows that it reads.
  struct Term {
    Expr x, w;
  };

  // If parts of the window differ in length, the element that only some devices have is a separate term, with
  // zeros on the others: a 0 padded into the window would be multiplied with rows that this device reads only
  // for another element, and 0 * inf is NaN.
  Expr sumOfTerms() {
    std::vector<Term> terms = {{x_, w_}};
    for (size_t i : unevenSums_) {
      std::vector<Term> split;
      for (const Term& t : terms) splitTerm(t, i, split);
      terms = std::move(split);
    }
    std::vector<TypeId> in;
    for (ValueId v : op_.operands) in.push_back(b_.module[v].type);
    const int64_t groups = localGroups(op_.global, in, op_.results);
    Expr sum;
    for (const Term& t : terms) {
      const bool biased = !sum.valid() && op_.operands.size() > 2;
      const Expr y = buildConv(t.x, t.w, biased ? op_.operands[2] : ValueId(), a_, groups, s_.transposed);
      sum = sum.valid() ? sum + y : y;
    }
    return sum;
  }

  void splitTerm(const Term& t, size_t i, std::vector<Term>& out) {
    const ConvWindow& v = s_.windows[i];
    const ShardedFactor& factor = op_.operandFactor(1, i + 2);
    const int64_t all = v.length / factor.devices, steps = v.stride * (v.result - 1);
    if (all > 0) out.push_back({rows(t.x, i, 0, v.dilation * (all - 1) + steps + 1), rows(t.w, i, 0, all)});
    const Expr own = op_.shardSize(Dim(v.length), factor.axes);
    const Expr has = own > all;
    const Expr seen = rows(t.x, i, v.dilation * all, steps + 1);
    out.push_back({select(has, seen, 0), rows(t.w, i, all, 1)});
  }

  Expr rows(Expr x, size_t i, int64_t from, int64_t count) {
    std::vector<Dim> limit = x.dims();
    std::vector<int64_t> start(limit.size());
    start[i + 2] = from;
    limit[i + 2] = Dim(from + count);
    return slice(x, {.start = start, .limit = limit});
  }

  ShardedOp& op_;
  Builder& b_;
  const ConvShape& s_;
  Expr x_, w_;
  ConvAttrs a_;
  std::vector<ResultRows> shards_;
  std::vector<size_t> unevenSums_; // spatial dims
};

} // namespace

bool shardConv(ShardedOp& op, std::vector<ValueId>& results) {
  ConvShape s;
  return convShapeOf(op.global, s) && ShardedConv(op, s).write(results);
}

} // namespace dtc
