// slice, pad, concat, split, roll and flip along sharded dims.
#include "dtc/IR/LocalShape.h"
#include "record/SliceParameters.h"
#include "window/Window.h"

namespace dtc {

// x becomes the shard of the result along `dim`: the result of one read.
static bool readInto(ShardedOp& op, WindowRead read, size_t dim, const ShardedFactor& factor, Expr& x) {
  const int64_t size = read.result;
  WindowFetch fetch(op, dim, factor);
  fetch.add(std::move(read));
  std::vector<Expr> buffers;
  if (!fetch.run(buffers)) return false;
  x = trimmed(buffers[0], dim, size, factor);
  return true;
}

static size_t attrDim(const ShardedOp& op, size_t rank) {
  return static_cast<size_t>(*op.global.dimAttr("dim", rank));
}

bool shardSlice(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<SliceDim> dims;
  if (!sliceDims(op.global, dims)) return false;
  Expr x = op.operand(0);
  // Unsharded dims first: less data is sent then.
  std::vector<int64_t> start(dims.size()), stride(dims.size(), 1);
  std::vector<Dim> limit = op.typeOf(x).dims;
  bool own = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& s = dims[d];
    if (s.full || op.resultFactor(0, d).isSharded()) continue;
    own = true;
    start[d] = s.start;
    stride[d] = s.stride;
    limit[d] = Dim(s.size == 0 ? s.start : s.start + (s.size - 1) * s.stride + 1);
  }
  if (own) x = slice(x, {.start = start, .limit = limit, .stride = stride});
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& s = dims[d];
    const ShardedFactor& factor = op.resultFactor(0, d);
    if (s.full || !factor.isSharded()) continue;
    if (s.size == 0) return false;
    WindowRead read{.result = s.size};
    read.sources.push_back({.x = x,
                            .size = op.global.type(0).dims[d].value(),
                            .length = s.size,
                            .step = s.stride,
                            .offset = s.start});
    if (!readInto(op, std::move(read), d, factor, x)) return false;
  }
  results.push_back(x);
  return true;
}

// --- pad ---

// Interior padding: the elements that this device's shard needs, spread, and sliced to the shard.
static bool spread(ShardedOp& op, const PadDim& p, size_t d, int64_t size, ValueId value, Expr& x) {
  const ShardedFactor& factor = op.resultFactor(0, d);
  const int64_t step = p.interior + 1, shardSize = largestShard(size, factor);
  WindowRead read{.result = size, .first = p.interior - p.low, .last = -p.low, .divide = step};
  read.sources.push_back({.x = x, .size = p.size});
  read.fill = value;
  WindowFetch fetch(op, d, factor);
  fetch.add(std::move(read));
  std::vector<Expr> buffers;
  if (!fetch.run(buffers)) return false;
  // Its first element is at most `interior` after the beginning of the shard.
  const Expr first = fetch.firstRow(0), begin = fetch.firstResult(0);
  const size_t rank = x.rank();
  std::vector<int64_t> low(rank), high(rank), interior(rank);
  const int64_t covered = (fetch.rows(0) - 1) * step + 1;
  low[d] = interior[d] = p.interior;
  high[d] = std::max<int64_t>(shardSize - covered, 0) + p.interior;
  x = pad(buffers[0], {.value = value, .low = low, .high = high, .interior = interior});
  const Expr seen = first * step, after = seen - (begin - p.low);
  std::vector<Dim> sizes = x.dims();
  sizes[d] = Dim(shardSize);
  std::vector<ops::Arg> starts(rank, first.literal(0));
  starts[d] = p.interior - after;
  x = trimmed(dynamic_slice(x, starts, sizes), d, size, factor);
  return true;
}

// The line of a padded dim: x, and before and after it what the mode takes from x.
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

bool shardPad(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<PadDim> dims;
  const PadMode mode = padMode(op.global);
  const bool constant = mode == PadMode::Constant;
  if (!padDims(op.global, dims)) return false;
  Expr x = op.operand(0);
  const ValueId value = op.operands.size() > 1 && op.operands[1].valid() ? op.operands[1] : x.literal(0);
  std::vector<int64_t> low(dims.size()), high(dims.size()), interior(dims.size());
  bool own = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    const ShardedFactor& factor = op.resultFactor(0, d);
    if (p.none()) continue;
    if (!factor.isSharded()) {
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
    if (!readInto(op, std::move(read), d, factor, x)) return false;
  }
  // Unsharded dims last: less data is sent then.
  if (own && !constant)
    x = pad(x, {.low = low, .high = high, .mode = op.global.rawAttr("mode")});
  else if (own)
    x = pad(x, {.value = value, .low = low, .high = high, .interior = interior});
  results.push_back(x);
  return true;
}

// --- stack, concat, split ---

// Every device has the operands and selects its shard: no communication.
bool shardStack(ShardedOp& op, std::vector<ValueId>& results) {
  const size_t rank = op.global.type(0).rank() + 1;
  const auto dim = *op.global.dimAttr("dim", rank);
  const auto at = static_cast<size_t>(dim);
  const ShardedFactor& factor = op.resultFactor(0, at);
  const auto count = static_cast<int64_t>(op.operands.size());
  Expr x = ops::stack(op.b, op.operands, dim);
  std::vector<Dim> sizes = x.dims();
  sizes[at] = Dim(largestShard(count, factor));
  // No slice is clamped.
  std::vector<int64_t> low(rank), high(rank);
  high[at] = count % factor.devices == 0 ? 0 : 1;
  if (high[at] > 0) x = pad(x, {.low = low, .high = high});
  const Expr begin = op.shardOffset(Dim(count), factor.axes);
  std::vector<ops::Arg> starts(rank, begin.literal(0));
  starts[at] = begin;
  results.push_back(trimmed(dynamic_slice(x, starts, sizes), at, count, factor));
  return true;
}

bool shardConcat(ShardedOp& op, std::vector<ValueId>& results) {
  const size_t dim = attrDim(op, op.global.type(0).rank());
  const ShardedFactor& factor = op.resultFactor(0, dim);
  WindowRead read;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Dim size = op.global.type(i).dims[dim];
    if (!size.isStatic()) return false;
    if (size.value() > 0)
      read.sources.push_back({.x = op.operands[i], .size = size.value(), .base = read.result});
    read.result += size.value();
  }
  Expr x;
  if (read.result == 0 || !readInto(op, std::move(read), dim, factor, x)) return false;
  results.push_back(x);
  return true;
}

bool shardSplit(ShardedOp& op, std::vector<ValueId>& results) {
  const size_t dim = attrDim(op, op.global.type(0).rank());
  const ShardedFactor& factor = op.operandFactor(0, dim);
  const Dim total = op.global.type(0).dims[dim];
  const std::vector<Dim> sizes = *sizesAttr(op.global, "sizes");
  if (!total.isStatic() || total.value() == 0) return false;
  WindowFetch fetch(op, dim, factor);
  int64_t from = 0;
  for (const Dim size : sizes) {
    if (size.value() > 0) {
      WindowRead read{.result = size.value(), .first = from, .last = from};
      read.sources.push_back({.x = op.operands[0], .size = total.value()});
      fetch.add(std::move(read));
    }
    from += size.value();
  }
  std::vector<Expr> buffers;
  if (!fetch.run(buffers)) return false;
  size_t next = 0;
  for (size_t r = 0; r < sizes.size(); ++r)
    results.push_back(sizes[r].value() == 0
                          ? op.b.constant(0, op.results[r])
                          : ValueId(trimmed(buffers[next++], dim, sizes[r].value(), factor)));
  return true;
}

// --- roll, flip ---

bool shardRoll(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<Shift> shifts;
  if (!shiftsOf(op.global, shifts)) return false;
  Expr x = op.operand(0);
  std::vector<int64_t> by, dims;
  for (const Shift& s : shifts) {
    const auto d = static_cast<size_t>(s.dim);
    const ShardedFactor& factor = op.resultFactor(0, d);
    if (s.by == 0) continue;
    if (!factor.isSharded()) {
      by.push_back(s.by), dims.push_back(s.dim);
      continue;
    }
    const Dim size = op.global.type(0).dims[d];
    if (!size.isStatic() || size.value() == 0) return false;
    const int64_t n = size.value(), shift = (s.by % n + n) % n;
    WindowRead read{.result = n, .first = -shift, .last = -shift};
    if (shift > 0) read.sources.push_back({.x = x, .size = n, .base = -n});
    read.sources.push_back({.x = x, .size = n});
    if (!readInto(op, std::move(read), d, factor, x)) return false;
  }
  if (!by.empty()) x = roll(x, {.shifts = by, .dims = dims});
  results.push_back(x);
  return true;
}

bool shardFlip(ShardedOp& op, std::vector<ValueId>& results) {
  Expr x = op.operand(0);
  const std::vector<int64_t> dims = *op.global.dimsAttr("dims", op.global.type(0).rank());
  std::vector<int64_t> own;
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    const ShardedFactor& factor = op.resultFactor(0, d);
    if (!factor.isSharded()) {
      own.push_back(dim);
      continue;
    }
    const Dim size = op.global.type(0).dims[d];
    if (!size.isStatic() || size.value() == 0) return false;
    const int64_t n = size.value();
    WindowRead read{.result = n};
    read.sources.push_back({.x = x, .size = n, .offset = n - 1, .order = SourceOrder::Mirrored});
    if (!readInto(op, std::move(read), d, factor, x)) return false;
  }
  if (!own.empty()) x = flip(x, own);
  results.push_back(x);
  return true;
}

} // namespace dtc
