// sort and argsort along a sharded dim, by columnsort (Leighton, Tight bounds on the complexity of parallel
// sorting, 1985). Each device is a column of `rows` elements: four local sorts, with two all_to_alls and an
// exchange with both neighbors between them, for any data, so that no buffer can overflow. An element is
// sent as one i64, its key above its global index: no two are equal, and the sort is stable.
#include "dtc/IR/LocalShape.h"
#include "reduce/Merge.h"
#include <algorithm>
#include <limits>
#include <string_view>

namespace dtc {

namespace {

class ColumnSort {
public:
  explicit ColumnSort(ShardedOp& op)
      : op_(op), b_(op.b), m_(op.b.module), dim_(*op.global.dimAttr("dim", op.global.type(0).rank())),
        at_(static_cast<size_t>(dim_)), size_(op.global.type(0).dims[at_]), columns_(op.devices()),
        axes_(op.operandFactor(0, at_).axes), descending_(op.global.boolAttr("descending")) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const DType own = op_.dtypeOf(op_.operands[0]);
    if (!size_.isStatic() || isComplex(own) || dtypeBytes(own) > 4) return false;
    const int64_t n = size_.value(), longest = n / columns_ + (n % columns_ != 0);
    // As many rows as the method requires, and a multiple of the columns; the padding sorts last.
    rows_ = std::max(longest, 2 * (columns_ - 1) * (columns_ - 1));
    rows_ = (rows_ + columns_ - 1) / columns_ * columns_;
    for (int64_t i = 0; i < columns_; ++i)
      late_ = std::max(late_, i * rows_ - shardInterval(n, columns_, i).begin);
    if (n == 0 || late_ > rows_ || n > std::numeric_limits<int32_t>::max() / 2) return false;
    Expr words = sorted(padded());
    words = sorted(dealt(words));
    words = sorted(collected(words));
    words = ownShard(mergedWithNeighbors(words), longest);
    if (op_.results.size() == 2) results.push_back(trimmed(valueOf(words)));
    results.push_back(trimmed(indexOf(words)));
    return true;
  }

private:
  [[nodiscard]] bool isSharded(Dim d) const { return !d.isStatic() && !m_.dims.dynamic(d).axes.empty(); }

  // --- elements as words, and back ---

  // Maps the bits of a float so that they order as i32; its own inverse.
  Expr orderedBits(Expr i32) {
    const Expr sign = shr(i32, 31);
    return i32 ^ (sign & 0x7fffffff);
  }

  // i32 of the same order as the elements; `flag`: i32, 1 for -0.0, which equals 0.0.
  Expr keyOf(Expr x, Expr& flag) {
    const DType own = op_.dtypeOf(x);
    Expr key;
    if (isFloat(own)) {
      x = x.as(DType::F32);
      const Expr raw = bitcast(x, DType::I32), zero = eq(x, 0);
      key = select(zero, 0, orderedBits(raw));
      key = select(is_nan(x), std::numeric_limits<int32_t>::max(), key);
      const Expr negative = raw < 0;
      flag = (zero & negative).as(DType::I32);
    } else if (own == DType::U32) {
      key = bitcast(x, DType::I32) ^ std::numeric_limits<int32_t>::min();
    } else {
      key = x.as(DType::I32);
    }
    return descending_ ? -1 - key : key;
  }

  // This device's elements, padded with the max word: [.., rows, ..] of i64.
  Expr padded() {
    Expr x = op_.operand(0);
    const size_t rank = op_.typeOf(x).rank();
    for (size_t d = 0; d < rank; ++d)
      if (isSharded(op_.typeOf(x).dims[d])) x = fill_piece(x, {.dim = d});
    std::vector<int64_t> low(rank), high(rank);
    high[at_] = rows_ - op_.typeOf(x).dims[at_].value();
    x = pad(x, {.low = low, .high = high});
    Expr flag;
    const Expr key = keyOf(x, flag).as(DType::I64);
    const Expr position = counted();
    const Expr index = (position + op_.shardOffset(size_, axes_)).as(DType::I64);
    Expr word = key * (int64_t(1) << 32);
    word = word + index * 2;
    if (flag.valid()) word = word + flag.as(DType::I64);
    const Expr here = position < op_.shardSize(size_, axes_);
    return select(here, word, std::numeric_limits<int64_t>::max());
  }
  Expr counted() {
    std::vector<Dim> dims(op_.global.type(0).rank(), Dim(1));
    dims[at_] = Dim(rows_);
    return ops::iota(b_, m_.tensorType(DType::I32, dims), {.dim = dim_});
  }

  Expr valueOf(Expr words) {
    Expr key = shr(words, 32).as(DType::I32);
    if (descending_) key = -1 - key;
    const DType own = op_.dtypeOf(op_.operands[0]);
    if (own == DType::U32) return bitcast(key ^ std::numeric_limits<int32_t>::min(), own);
    if (!isFloat(own)) return key.as(own);
    const Expr flag = words & 1;
    const Expr negative = eq(flag, 1);
    const Expr value = select(negative, -0.0, bitcast(orderedBits(key), DType::F32));
    return value.as(own);
  }
  Expr indexOf(Expr words) {
    const Expr low = words & 0xffffffff;
    return shr(low, 1).as(DType::I32);
  }

  // --- the steps ---

  Expr sorted(Expr words) { return sort(words, {.dim = dim_})[0]; }

  // The words of `dim_` reshaped to these sizes.
  Expr seenAs(Expr words, std::initializer_list<int64_t> sizes, size_t dimsNow) {
    std::vector<Dim> dims = op_.typeOf(words).dims;
    const auto begin = dims.begin() + dim_;
    dims.erase(begin, begin + static_cast<ptrdiff_t>(dimsNow));
    dims.insert(dims.begin() + dim_, sizes.begin(), sizes.end());
    return reshape(words, dims);
  }
  Expr exchanged(Expr words, int64_t split, int64_t concat) {
    return all_to_all(words, {.axes = axes_, .split_dim = split, .concat_dim = concat});
  }
  // From column-major to row-major order: every columns-th word goes to one device.
  Expr dealt(Expr words) {
    words = exchanged(seenAs(words, {rows_ / columns_, columns_}, 1), dim_ + 1, dim_);
    return seenAs(words, {rows_}, 2);
  }
  Expr collected(Expr words) {
    words = exchanged(seenAs(words, {columns_, rows_ / columns_, 1}, 1), dim_, dim_ + 2);
    return seenAs(words, {rows_}, 3);
  }

  Expr part(Expr words, int64_t begin, int64_t end) {
    std::vector<int64_t> start(op_.typeOf(words).rank());
    std::vector<Dim> limit = op_.typeOf(words).dims;
    start[at_] = begin, limit[at_] = Dim(end);
    return slice(words, {.start = start, .limit = limit});
  }
  Expr joined(Expr x, Expr y) { return ops::concat(b_, {x, y}, dim_); }
  // From the device `step` before; zeros if there is none.
  Expr fromBefore(Expr words, int64_t step) {
    std::vector<AttrId> pairs;
    for (int64_t to = 0; to < columns_; ++to)
      if (const int64_t from = to - step; from >= 0 && from < columns_)
        pairs.push_back(b_.ints(std::array{from, to}));
    return permute(words, {.axes = axes_, .pairs = m_.attrs.list(std::move(pairs))});
  }

  // Remaining misplaced words are within half a column of a boundary: sorts the half before it with the half
  // after.
  Expr mergedWithNeighbors(Expr words) {
    const int64_t half = rows_ / 2;
    const Expr me = op_.index(axes_);
    const Expr first = part(words, 0, rows_ - half), last = part(words, rows_ - half, rows_);
    const Expr both = sorted(joined(fromBefore(last, 1), first));
    const Expr isFirst = eq(me, 0), isLast = eq(me, columns_ - 1);
    const Expr begin = select(isFirst, first, part(both, half, rows_));
    return joined(begin, select(isLast, last, fromBefore(part(both, 0, half), -1)));
  }

  // Columns are longer than shards, so that a shard begins in the previous column or in its own.
  Expr ownShard(Expr words, int64_t longest) {
    if (late_ == 0) return longest == rows_ ? words : part(words, 0, longest);
    const Expr room = joined(fromBefore(part(words, rows_ - late_, rows_), 1), words);
    const Expr begin = op_.index(axes_) * rows_, offset = op_.shardOffset(size_, axes_);
    std::vector<Dim> sizes = room.dims();
    sizes[at_] = Dim(longest);
    std::vector<ops::Arg> starts(sizes.size(), 0);
    starts[at_] = offset - (begin - late_);
    return dynamic_slice(room, starts, sizes);
  }

  Expr trimmed(Expr v) {
    const Type type = m_.types[op_.results[0]];
    for (size_t d = 0; d < type.rank(); ++d) {
      if (!isSharded(type.dims[d])) continue;
      v = trim_piece(
          v, {.dim = d, .size = m_.dims.unsharded(type.dims[d]), .axes = m_.dims.dynamic(type.dims[d]).axes});
    }
    return v;
  }

  ShardedOp& op_;
  Builder& b_;
  Module& m_;
  int64_t dim_;
  size_t at_;
  Dim size_;
  int64_t columns_, rows_ = 0;
  int64_t late_ = 0; // the max number of elements by which a shard begins before its column
  const std::vector<AxisRef>& axes_;
  bool descending_;
};

} // namespace

bool shardSort(ShardedOp& op, std::vector<ValueId>& results) { return ColumnSort(op).run(results); }

} // namespace dtc
