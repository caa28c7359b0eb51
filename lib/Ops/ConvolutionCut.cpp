// conv along cut dims: each device fetches what its windows see, or sums its part of the window.
#include "Convolution.h"
#include "Window.h"
#include "dtc/IR/LocalShape.h"

namespace dtc {

namespace {

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
    ValueId y = sumOfTerms();
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
    if (skipsRows(v.stride, v.reach())) a_.stride[i] = 1;
    return fetch(i, cut, rowsSeen(x_, v.size, v.result, v.stride, v.low, v.reach(), op_.scalar(0, x_)));
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
    const ValueId seen = b_.value("mul", {first, integer(op_, v.stride, type)});
    pieces_.push_back(
        {i + 2, b_.value("sub", {b_.value("add", {begin, integer(op_, v.low + front, type)}), seen}), piece});
    return true;
  }

  ValueId pieceOf(ValueId y, const Piece& p) {
    std::vector<Dim> sizes = op_.typeOf(y).dims;
    std::vector<ValueId> operands = {y};
    for (size_t d = 0; d < sizes.size(); ++d)
      operands.push_back(d == p.dim ? p.start : integer(op_, 0, op_.dtypeOf(p.start)));
    sizes[p.dim] = Dim(p.size);
    return b_.module.result(b_.op("dynamic_slice", operands, {{"sizes", sizesToAttr(b_.module, sizes)}}));
  }

  // The window is cut: each device adds up its own part of it, against what that sees.
  bool sumOver(size_t i, const CutFactor& cut) {
    const ConvWindow& v = s_.windows[i];
    WindowRead read{.result = v.length,
                    .scale = v.dilation,
                    .first = -v.low,
                    .last = v.stride * (v.result - 1) - v.low,
                    .fill = op_.scalar(0, x_)};
    read.sources.push_back({.x = x_, .size = v.size});
    a_.padding[i] = {0, 0};
    if (!fetch(i, cut, std::move(read))) return false;
    if (v.length % cut.devices == 0) return true;
    w_ = b_.value("fill_piece", {w_}, {{"dim", b_.integer(static_cast<int64_t>(i + 2))}});
    unevenSums_.push_back(i);
    return true;
  }

  // Part of the window, against the rows that it sees.
  struct Term {
    ValueId x, w;
  };

  // Where parts of the window differ in length, the element that only some devices have is a term of its own, of zeros on the others:
  // a 0 in its place beside the others would meet rows that this device only sees with another element, and 0 * inf is no number.
  ValueId sumOfTerms() {
    std::vector<Term> terms = {{x_, w_}};
    for (size_t i : unevenSums_) {
      std::vector<Term> split;
      for (const Term& t : terms) splitTerm(t, i, split);
      terms = std::move(split);
    }
    std::vector<TypeId> in;
    for (ValueId v : op_.operands) in.push_back(b_.module[v].type);
    const int64_t groups = localGroups(op_.whole, in, op_.results);
    ValueId sum;
    for (const Term& t : terms) {
      std::vector<ValueId> operands = {t.x, t.w};
      if (!sum.valid() && op_.operands.size() > 2) operands.push_back(op_.operands[2]);
      const ValueId y = buildConv(b_, operands, a_, groups, s_.transposed);
      sum = sum.valid() ? b_.value("add", {sum, y}) : y;
    }
    return sum;
  }

  void splitTerm(const Term& t, size_t i, std::vector<Term>& out) {
    const ConvWindow& v = s_.windows[i];
    const CutFactor& cut = op_.operandCut(1, i + 2);
    const int64_t all = v.length / cut.devices, steps = v.stride * (v.result - 1);
    if (all > 0) out.push_back({rows(t.x, i, 0, v.dilation * (all - 1) + steps + 1), rows(t.w, i, 0, all)});
    const ValueId own = op_.pieceSize(Dim(v.length), cut.axes);
    const ValueId has = b_.value("gt", {own, integer(op_, all, op_.dtypeOf(own))});
    const ValueId seen = rows(t.x, i, v.dilation * all, steps + 1);
    out.push_back({b_.value("select", {has, seen, op_.scalar(0, seen)}), rows(t.w, i, all, 1)});
  }

  ValueId rows(ValueId x, size_t i, int64_t from, int64_t count) {
    std::vector<Dim> limit = op_.typeOf(x).dims;
    std::vector<int64_t> start(limit.size());
    start[i + 2] = from;
    limit[i + 2] = Dim(from + count);
    return b_.value("slice", {x}, {{"start", b_.ints(start)}, {"limit", sizesToAttr(b_.module, limit)}});
  }

  CutOp& op_;
  Builder& b_;
  const ConvShape& s_;
  ValueId x_, w_;
  ConvAttrs a_;
  std::vector<Piece> pieces_;
  std::vector<size_t> unevenSums_; // spatial dims
};

} // namespace

bool cutConv(CutOp& op, std::vector<ValueId>& results) {
  ConvShape s;
  return convShapeOf(op.whole, s) && ConvCutter(op, s).write(results);
}

} // namespace dtc
