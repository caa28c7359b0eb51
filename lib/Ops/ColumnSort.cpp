// sort and argsort along a cut dim: Leighton, Tight bounds on the complexity of parallel sorting (1985), columnsort. Each device
// is a column of `rows` elements: four local sorts, two all_to_alls between them and an exchange with both neighbours, whatever
// the data, so that no buffer can overflow. An element travels as one i64, its key over its index in the whole: no two are equal,
// and the first of equals stays the first.
#include "Merge.h"
#include "dtc/IR/LocalShape.h"
#include <algorithm>
#include <limits>
#include <string_view>

namespace dtc {

namespace {

class ColumnSort {
public:
  explicit ColumnSort(CutOp& op)
      : op_(op), b_(op.b), m_(op.b.module), dim_(*op.whole.dimAttr("dim", op.whole.type(0).rank())),
        at_(static_cast<size_t>(dim_)), size_(op.whole.type(0).dims[at_]), columns_(op.devices()),
        axes_(op.operandCut(0, at_).axes), descending_(op.whole.boolAttr("descending")) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const DType own = op_.dtypeOf(op_.operands[0]);
    if (!size_.isStatic() || isComplex(own) || dtypeBytes(own) > 4) return false;
    const int64_t n = size_.value(), longest = n / columns_ + (n % columns_ != 0);
    // As many rows as the method needs, and a multiple of the columns; what is filled in sorts behind all.
    rows_ = std::max(longest, 2 * (columns_ - 1) * (columns_ - 1));
    rows_ = (rows_ + columns_ - 1) / columns_ * columns_;
    for (int64_t i = 0; i < columns_; ++i) late_ = std::max(late_, i * rows_ - piece(n, columns_, i).begin);
    if (n == 0 || late_ > rows_ || n > std::numeric_limits<int32_t>::max() / 2) return false;
    ValueId words = sorted(padded());
    words = sorted(dealt(words));
    words = sorted(collected(words));
    words = ownPiece(mergedWithNeighbours(words), longest);
    if (op_.results.size() == 2) results.push_back(trimmed(valueOf(words)));
    results.push_back(trimmed(indexOf(words)));
    return true;
  }

private:
  ValueId number(int64_t v, DType d) { return m_.makeLiteral(m_.attrs.integer(v), d, b_.loc); }
  ValueId convert(ValueId v, DType d) { return op_.convert(v, d); }
  ValueId bits(ValueId v, DType d) { return b_.value("bitcast", {v}, {{"dtype", b_.word(dtypeName(d))}}); }
  ValueId select(ValueId p, ValueId x, ValueId y) { return b_.value("select", {p, x, y}); }
  ValueId reshape(ValueId v, const std::vector<Dim>& dims) {
    return b_.value("reshape", {v}, {{"shape", sizesAttr(m_, dims)}});
  }
  [[nodiscard]] bool isCut(Dim d) const { return !d.isStatic() && !m_.dims.dynamic(d).cut.empty(); }

  // --- elements as words, and back ---

  // A float's bits turned so that they order as i32: the same function turns them back.
  ValueId turned(ValueId i32) {
    const ValueId sign = b_.value("shr", {i32, number(31, DType::I32)});
    return b_.value("xor", {i32, b_.value("and", {sign, number(0x7fffffff, DType::I32)})});
  }

  // i32 that order as the elements do; `flag`: i32, 1 for -0.0, which equals 0.0.
  ValueId keyOf(ValueId x, ValueId& flag) {
    const DType own = op_.dtypeOf(x);
    ValueId key;
    if (isFloat(own)) {
      x = convert(x, DType::F32);
      const ValueId raw = bits(x, DType::I32), zero = b_.value("eq", {x, b_.literal(0, DType::F32)});
      key = select(zero, number(0, DType::I32), turned(raw));
      key = select(b_.value("is_nan", {x}), number(std::numeric_limits<int32_t>::max(), DType::I32), key);
      const ValueId negative = b_.value("lt", {raw, number(0, DType::I32)});
      flag = convert(b_.value("and", {zero, negative}), DType::I32);
    } else if (own == DType::U32) {
      key = b_.value("xor", {bits(x, DType::I32), number(std::numeric_limits<int32_t>::min(), DType::I32)});
    } else {
      key = convert(x, DType::I32);
    }
    return descending_ ? b_.value("sub", {number(-1, DType::I32), key}) : key;
  }

  // This device's elements, filled with the last word: [.., rows, ..] of i64.
  ValueId padded() {
    ValueId x = op_.operands[0];
    const size_t rank = op_.typeOf(x).rank();
    for (size_t d = 0; d < rank; ++d)
      if (isCut(op_.typeOf(x).dims[d]))
        x = b_.value("fill_piece", {x}, {{"dim", b_.integer(static_cast<int64_t>(d))}});
    std::vector<int64_t> low(rank), high(rank);
    high[at_] = rows_ - op_.typeOf(x).dims[at_].value();
    x = b_.value("pad", {x}, {{"low", b_.ints(low)}, {"high", b_.ints(high)}});
    ValueId flag;
    const ValueId key = convert(keyOf(x, flag), DType::I64);
    const ValueId place = counted();
    const ValueId index = convert(b_.value("add", {place, op_.pieceOffset(size_, axes_)}), DType::I64);
    ValueId word = b_.value("mul", {key, number(int64_t(1) << 32, DType::I64)});
    word = b_.value("add", {word, b_.value("mul", {index, number(2, DType::I64)})});
    if (flag.valid()) word = b_.value("add", {word, convert(flag, DType::I64)});
    const ValueId here = b_.value("lt", {place, op_.pieceSize(size_, axes_)});
    return select(here, word, number(std::numeric_limits<int64_t>::max(), DType::I64));
  }
  ValueId counted() {
    std::vector<Dim> dims(op_.whole.type(0).rank(), Dim(1));
    dims[at_] = Dim(rows_);
    TypeId type[] = {m_.tensorType(DType::I32, dims)};
    return m_.result(b_.op("iota", {}, {{"dim", b_.integer(dim_)}}, type));
  }

  ValueId valueOf(ValueId words) {
    ValueId key = convert(b_.value("shr", {words, number(32, DType::I64)}), DType::I32);
    if (descending_) key = b_.value("sub", {number(-1, DType::I32), key});
    const DType own = op_.dtypeOf(op_.operands[0]);
    if (own == DType::U32)
      return bits(b_.value("xor", {key, number(std::numeric_limits<int32_t>::min(), DType::I32)}), own);
    if (!isFloat(own)) return convert(key, own);
    const ValueId flag = b_.value("and", {words, number(1, DType::I64)});
    const ValueId value = select(b_.value("eq", {flag, number(1, DType::I64)}), b_.literal(-0.0, DType::F32),
                                 bits(turned(key), DType::F32));
    return convert(value, own);
  }
  ValueId indexOf(ValueId words) {
    const ValueId low = b_.value("and", {words, number(0xffffffff, DType::I64)});
    return convert(b_.value("shr", {low, number(1, DType::I64)}), DType::I32);
  }

  // --- the steps ---

  ValueId sorted(ValueId words) { return b_.value("sort", {words}, {{"dim", b_.integer(dim_)}}); }

  // The words of `dim_` as dims of these sizes.
  ValueId seenAs(ValueId words, std::initializer_list<int64_t> sizes, size_t dimsNow) {
    std::vector<Dim> dims = op_.typeOf(words).dims;
    const auto begin = dims.begin() + dim_;
    dims.erase(begin, begin + static_cast<ptrdiff_t>(dimsNow));
    dims.insert(dims.begin() + dim_, sizes.begin(), sizes.end());
    return reshape(words, dims);
  }
  ValueId exchanged(ValueId words, int64_t split, int64_t concat) {
    return b_.value("all_to_all", {words},
                    {{"axes", axesAttr(m_, axes_)},
                     {"split_dim", b_.integer(split)},
                     {"concat_dim", b_.integer(concat)}});
  }
  // Row by row what was column by column: every columns-th word goes to one device.
  ValueId dealt(ValueId words) {
    words = exchanged(seenAs(words, {rows_ / columns_, columns_}, 1), dim_ + 1, dim_);
    return seenAs(words, {rows_}, 2);
  }
  ValueId collected(ValueId words) {
    words = exchanged(seenAs(words, {columns_, rows_ / columns_, 1}, 1), dim_, dim_ + 2);
    return seenAs(words, {rows_}, 3);
  }

  ValueId part(ValueId words, int64_t begin, int64_t end) {
    std::vector<int64_t> start(op_.typeOf(words).rank());
    std::vector<Dim> limit = op_.typeOf(words).dims;
    start[at_] = begin, limit[at_] = Dim(end);
    return b_.value("slice", {words}, {{"start", b_.ints(start)}, {"limit", sizesAttr(m_, limit)}});
  }
  ValueId joined(ValueId x, ValueId y) { return b_.value("concat", {x, y}, {{"dim", b_.integer(dim_)}}); }
  // From the device `step` places before; zeros where there is none.
  ValueId fromBefore(ValueId words, int64_t step) {
    Attr pairs;
    pairs.kind = Attr::List;
    for (int64_t to = 0; to < columns_; ++to)
      if (const int64_t from = to - step; from >= 0 && from < columns_)
        pairs.list.push_back(b_.ints(std::array{from, to}));
    return b_.value("permute", {words},
                    {{"axes", axesAttr(m_, axes_)}, {"pairs", m_.attrs.intern(std::move(pairs))}});
  }

  // What is still out of place lies within half a column of a boundary: the half before it is sorted with the half behind.
  ValueId mergedWithNeighbours(ValueId words) {
    const int64_t half = rows_ / 2;
    const ValueId me = op_.index(axes_);
    const ValueId first = part(words, 0, rows_ - half), last = part(words, rows_ - half, rows_);
    const ValueId both = sorted(joined(fromBefore(last, 1), first));
    const ValueId isFirst = b_.value("eq", {me, number(0, DType::I32)}),
                  isLast = b_.value("eq", {me, number(columns_ - 1, DType::I32)});
    return joined(select(isFirst, first, part(both, half, rows_)),
                  select(isLast, last, fromBefore(part(both, 0, half), -1)));
  }

  // Columns are longer than pieces, so that a piece begins in the column before, or in its own.
  ValueId ownPiece(ValueId words, int64_t longest) {
    if (late_ == 0) return longest == rows_ ? words : part(words, 0, longest);
    const ValueId room = joined(fromBefore(part(words, rows_ - late_, rows_), 1), words);
    const ValueId begin = b_.value("mul", {op_.index(axes_), number(rows_, DType::I32)});
    const ValueId start =
        b_.value("sub", {op_.pieceOffset(size_, axes_), b_.value("sub", {begin, number(late_, DType::I32)})});
    std::vector<ValueId> in = {room};
    std::vector<Dim> sizes = op_.typeOf(room).dims;
    sizes[at_] = Dim(longest);
    for (size_t d = 0; d < sizes.size(); ++d) in.push_back(d == at_ ? start : number(0, DType::I32));
    return m_.result(b_.op("dynamic_slice", in, {{"sizes", sizesAttr(m_, sizes)}}));
  }

  ValueId trimmed(ValueId v) {
    const Type type = m_.types[op_.results[0]];
    for (size_t d = 0; d < type.rank(); ++d) {
      if (!isCut(type.dims[d])) continue;
      v = b_.value("trim_piece", {v},
                   {{"dim", b_.integer(static_cast<int64_t>(d))},
                    {"size", sizeAttr(m_, m_.dims.uncut(type.dims[d]))},
                    {"axes", axesAttr(m_, m_.dims.dynamic(type.dims[d]).cut)}});
    }
    return v;
  }

  CutOp& op_;
  Builder& b_;
  Module& m_;
  int64_t dim_;
  size_t at_;
  Dim size_;
  int64_t columns_, rows_ = 0;
  int64_t late_ = 0; // by how much a piece begins before its column, at most
  const std::vector<AxisRef>& axes_;
  bool descending_;
};

} // namespace

bool cutSort(CutOp& op, std::vector<ValueId>& results) { return ColumnSort(op).run(results); }

} // namespace dtc
