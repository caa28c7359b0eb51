// slice, pad, concat, split, roll and flip along cut dims.
#include "PieceDims.h"
#include "Window.h"
#include "dtc/IR/LocalShape.h"

namespace dtc {

namespace {

// x becomes the piece of the result along `dim`: what one read gives.
bool readInto(CutOp& op, WindowRead read, size_t dim, const CutFactor& cut, ValueId& x) {
  const int64_t size = read.result;
  WindowFetch fetch(op, dim, cut);
  fetch.add(std::move(read));
  std::vector<ValueId> buffers;
  if (!fetch.run(buffers)) return false;
  x = trimmed(op, buffers[0], dim, size, cut);
  return true;
}

size_t attrDim(const CutOp& op, size_t rank) { return static_cast<size_t>(*op.whole.dimAttr("dim", rank)); }

} // namespace

bool cutSlice(CutOp& op, std::vector<ValueId>& results) {
  std::vector<SliceDim> dims;
  if (!sliceDims(op.whole, dims)) return false;
  Builder& b = op.b;
  ValueId x = op.operands[0];
  // The dims that are not cut first: less is moved then.
  std::vector<int64_t> start(dims.size()), stride(dims.size(), 1);
  std::vector<Dim> limit = op.typeOf(x).dims;
  bool own = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& s = dims[d];
    if (s.whole || op.resultCut(0, d).cut()) continue;
    own = true;
    start[d] = s.start;
    stride[d] = s.stride;
    limit[d] = Dim(s.size == 0 ? s.start : s.start + (s.size - 1) * s.stride + 1);
  }
  if (own)
    x = b.value(
        "slice", {x},
        {{"start", b.ints(start)}, {"limit", sizesToAttr(b.module, limit)}, {"stride", b.ints(stride)}});
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& s = dims[d];
    const CutFactor& cut = op.resultCut(0, d);
    if (s.whole || !cut.cut()) continue;
    if (s.size == 0) return false;
    WindowRead read{.result = s.size};
    read.sources.push_back({.x = x,
                            .size = op.whole.type(0).dims[d].value(),
                            .length = s.size,
                            .step = s.stride,
                            .offset = s.start});
    if (!readInto(op, std::move(read), d, cut, x)) return false;
  }
  results.push_back(x);
  return true;
}

// --- pad ---

// Room between the elements: those that this device's piece touches, spread, and cut to the piece.
static bool spread(CutOp& op, const PadDim& p, size_t d, int64_t size, ValueId value, ValueId& x) {
  Builder& b = op.b;
  const CutFactor& cut = op.resultCut(0, d);
  const int64_t step = p.interior + 1, piece = largestPiece(size, cut);
  WindowRead read{.result = size, .first = p.interior - p.low, .last = -p.low, .divide = step};
  read.sources.push_back({.x = x, .size = p.size});
  read.fill = value;
  WindowFetch fetch(op, d, cut);
  fetch.add(std::move(read));
  std::vector<ValueId> buffers;
  if (!fetch.run(buffers)) return false;
  // Its first element is up to `interior` behind where the piece begins.
  const ValueId first = fetch.firstRow(0), begin = fetch.firstResult(0);
  auto number = [&](int64_t v) {
    return b.module.makeLiteral(b.module.attrs.integer(v), op.dtypeOf(first), b.loc);
  };
  const size_t rank = op.typeOf(x).rank();
  std::vector<int64_t> low(rank), high(rank), interior(rank);
  const int64_t covered = (fetch.rows(0) - 1) * step + 1;
  low[d] = interior[d] = p.interior;
  high[d] = std::max<int64_t>(piece - covered, 0) + p.interior;
  x = b.value("pad", {buffers[0], value},
              {{"low", b.ints(low)}, {"high", b.ints(high)}, {"interior", b.ints(interior)}});
  const ValueId behind =
      b.value("sub", {b.value("mul", {first, number(step)}), b.value("sub", {begin, number(p.low)})});
  std::vector<ValueId> operands = {x};
  for (size_t e = 0; e < rank; ++e)
    operands.push_back(e == d ? b.value("sub", {number(p.interior), behind}) : number(0));
  std::vector<Dim> sizes = op.typeOf(x).dims;
  sizes[d] = Dim(piece);
  x = b.module.result(b.op("dynamic_slice", operands, {{"sizes", sizesToAttr(b.module, sizes)}}));
  x = trimmed(op, x, d, size, cut);
  return true;
}

// What stands on the line of a padded dim: x, and before and behind it what the mode takes from x.
static WindowRead paddedLine(const PadDim& p, PadMode mode, ValueId x, int64_t size) {
  WindowRead read{.result = size};
  auto edge = [&](int64_t base, int64_t length, int64_t circular, int64_t reflected, int64_t nearest) {
    if (length <= 0 || mode == PadMode::Constant) return;
    WindowSource s{.x = x, .size = p.size, .base = base, .length = length};
    s.offset = mode == PadMode::Circular ? circular : mode == PadMode::Reflect ? reflected : nearest;
    s.order = mode == PadMode::Circular  ? SourceOrder::Forward
              : mode == PadMode::Reflect ? SourceOrder::Mirrored
                                         : SourceOrder::Repeated;
    read.sources.push_back(s);
  };
  edge(0, p.low, p.size - p.low, p.low, 0);
  read.sources.push_back({.x = x, .size = p.size, .base = p.low});
  edge(p.low + p.size, p.high, 0, p.size - 2, p.size - 1);
  return read;
}

bool cutPad(CutOp& op, std::vector<ValueId>& results) {
  std::vector<PadDim> dims;
  const PadMode mode = padMode(op.whole);
  const bool constant = mode == PadMode::Constant;
  if (!padDims(op.whole, dims)) return false;
  Builder& b = op.b;
  ValueId x = op.operands[0];
  const ValueId value = op.operands.size() > 1 && op.operands[1].valid() ? op.operands[1] : op.scalar(0, x);
  std::vector<int64_t> low(dims.size()), high(dims.size()), interior(dims.size());
  bool own = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    const CutFactor& cut = op.resultCut(0, d);
    if (p.none()) continue;
    if (!cut.cut()) {
      own = true;
      low[d] = p.low, high[d] = p.high, interior[d] = p.interior;
      continue;
    }
    const int64_t size = p.low + p.high + p.size + p.interior * std::max<int64_t>(p.size - 1, 0);
    if (size == 0 || p.size == 0) return false;
    if (p.interior > 0) {
      if (!spread(op, p, d, size, value, x)) return false;
      continue;
    }
    WindowRead read = paddedLine(p, mode, x, size);
    if (constant) read.fill = value;
    if (!readInto(op, std::move(read), d, cut, x)) return false;
  }
  // The dims that are not cut last: less is moved then.
  if (own && !constant)
    x = b.value("pad", {x},
                {{"low", b.ints(low)}, {"high", b.ints(high)}, {"mode", op.whole.rawAttr("mode")}});
  else if (own)
    x = b.value("pad", {x, value},
                {{"low", b.ints(low)}, {"high", b.ints(high)}, {"interior", b.ints(interior)}});
  results.push_back(x);
  return true;
}

// --- stack, concat, split ---

// Every device has the operands and takes those of its piece: nothing is received.
bool cutStack(CutOp& op, std::vector<ValueId>& results) {
  Builder& b = op.b;
  const size_t rank = op.whole.type(0).rank() + 1;
  const auto dim = *op.whole.dimAttr("dim", rank);
  const auto at = static_cast<size_t>(dim);
  const CutFactor& cut = op.resultCut(0, at);
  const auto count = static_cast<int64_t>(op.operands.size());
  std::vector<ValueId> from = {b.module.result(b.op("stack", op.operands, {{"dim", b.integer(dim)}}))};
  std::vector<Dim> sizes = op.typeOf(from[0]).dims;
  sizes[at] = Dim(largestPiece(count, cut));
  // No slice is moved back to fit.
  std::vector<int64_t> low(rank), high(rank);
  high[at] = count % cut.devices == 0 ? 0 : 1;
  if (high[at] > 0) from[0] = b.value("pad", {from[0]}, {{"low", b.ints(low)}, {"high", b.ints(high)}});
  const ValueId begin = op.pieceOffset(Dim(count), cut.axes);
  for (size_t d = 0; d < rank; ++d) from.push_back(d == at ? begin : integer(op, 0, op.dtypeOf(begin)));
  const ValueId own = b.module.result(b.op("dynamic_slice", from, {{"sizes", sizesToAttr(b.module, sizes)}}));
  results.push_back(trimmed(op, own, at, count, cut));
  return true;
}

bool cutConcat(CutOp& op, std::vector<ValueId>& results) {
  const size_t dim = attrDim(op, op.whole.type(0).rank());
  const CutFactor& cut = op.resultCut(0, dim);
  WindowRead read;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Dim size = op.whole.type(i).dims[dim];
    if (!size.isStatic()) return false;
    if (size.value() > 0)
      read.sources.push_back({.x = op.operands[i], .size = size.value(), .base = read.result});
    read.result += size.value();
  }
  ValueId x;
  if (read.result == 0 || !readInto(op, std::move(read), dim, cut, x)) return false;
  results.push_back(x);
  return true;
}

bool cutSplit(CutOp& op, std::vector<ValueId>& results) {
  const size_t dim = attrDim(op, op.whole.type(0).rank());
  const CutFactor& cut = op.operandCut(0, dim);
  const Dim whole = op.whole.type(0).dims[dim];
  const std::vector<Dim> sizes = *sizesAttr(op.whole, "sizes");
  if (!whole.isStatic() || whole.value() == 0) return false;
  WindowFetch fetch(op, dim, cut);
  int64_t from = 0;
  for (const Dim size : sizes) {
    if (size.value() > 0) {
      WindowRead read{.result = size.value(), .first = from, .last = from};
      read.sources.push_back({.x = op.operands[0], .size = whole.value()});
      fetch.add(std::move(read));
    }
    from += size.value();
  }
  std::vector<ValueId> buffers;
  if (!fetch.run(buffers)) return false;
  size_t next = 0;
  for (size_t r = 0; r < sizes.size(); ++r)
    results.push_back(sizes[r].value() == 0 ? op.b.constant(0, op.results[r])
                                            : trimmed(op, buffers[next++], dim, sizes[r].value(), cut));
  return true;
}

// --- roll, flip ---

bool cutRoll(CutOp& op, std::vector<ValueId>& results) {
  std::vector<Shift> shifts;
  if (!shiftsOf(op.whole, shifts)) return false;
  Builder& b = op.b;
  ValueId x = op.operands[0];
  std::vector<int64_t> by, dims;
  for (const Shift& s : shifts) {
    const auto d = static_cast<size_t>(s.dim);
    const CutFactor& cut = op.resultCut(0, d);
    if (s.by == 0) continue;
    if (!cut.cut()) {
      by.push_back(s.by), dims.push_back(s.dim);
      continue;
    }
    const Dim whole = op.whole.type(0).dims[d];
    if (!whole.isStatic() || whole.value() == 0) return false;
    const int64_t n = whole.value(), shift = (s.by % n + n) % n;
    WindowRead read{.result = n, .first = -shift, .last = -shift};
    if (shift > 0) read.sources.push_back({.x = x, .size = n, .base = -n});
    read.sources.push_back({.x = x, .size = n});
    if (!readInto(op, std::move(read), d, cut, x)) return false;
  }
  if (!by.empty()) x = b.value("roll", {x}, {{"shifts", b.ints(by)}, {"dims", b.ints(dims)}});
  results.push_back(x);
  return true;
}

bool cutFlip(CutOp& op, std::vector<ValueId>& results) {
  Builder& b = op.b;
  ValueId x = op.operands[0];
  const std::vector<int64_t> dims = *op.whole.dimsAttr("dims", op.whole.type(0).rank());
  std::vector<int64_t> own;
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    const CutFactor& cut = op.resultCut(0, d);
    if (!cut.cut()) {
      own.push_back(dim);
      continue;
    }
    const Dim whole = op.whole.type(0).dims[d];
    if (!whole.isStatic() || whole.value() == 0) return false;
    const int64_t n = whole.value();
    WindowRead read{.result = n};
    read.sources.push_back({.x = x, .size = n, .offset = n - 1, .order = SourceOrder::Mirrored});
    if (!readInto(op, std::move(read), d, cut, x)) return false;
  }
  if (!own.empty()) x = b.value("flip", {x}, {{"dims", b.ints(own)}});
  results.push_back(x);
  return true;
}

} // namespace dtc
