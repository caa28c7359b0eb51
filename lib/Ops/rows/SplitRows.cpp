#include "rows/SplitRows.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/record/Scalar.h"
#include "rows/SortRows.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace dtc {
namespace {

// A block of a GPU processes one contiguous row, or 32 adjacent strided ones: fewer blocks than this leave
// most of it idle. Parts have at least this length, so that combining them is cheap.
constexpr int64_t kMinRowElements = 1 << 18, kBlocks = 1 << 9, kFewBlocks = 1 << 6;
constexpr int64_t kMinContiguous = 1 << 12, kMinStrided = 1 << 7, kAdjacentRows = 32;
constexpr int64_t kMinRowParts = 4;
// The max elements that a block of a GPU sorts in shared memory, and the max k that it may return.
constexpr int64_t kOrdered = 1 << 12, kMaxOfOrdered = kOrdered / 8;
// Rows with more elements than a cluster's eight blocks sort in shared memory are sorted by all blocks. On a
// CPU, each core sorts one of several rows, which it reads from its caches.
constexpr int64_t kSortedTogether = 8 * kOrdered;

// x[.., n, ..] as [.., parts, length, ..], padded before or after the row.
struct RowParts {
  size_t dim = 0;
  int64_t parts = 0, length = 0, low = 0, high = 0;
};

class RowSplitter {
public:
  RowSplitter(Module& m, OpId o, Builder& b)
      : m_(m), o_(o), b_(b), name_(m.record(o).name), x_(b, m.operand(o, 0)), dtype_(x_.dtype()) {}

  // False: the op is unchanged. Otherwise the replacements of its results.
  bool scan(std::vector<ValueId>& results);
  bool search(std::vector<ValueId>& results);                  // argmax, argmin
  bool select(int64_t k, std::vector<ValueId>& results);       // topk
  bool order(bool severalRows, std::vector<ValueId>& results); // argsort

private:
  bool readRow();
  bool chooseParts(int64_t minLength);
  void splitEvenly(int64_t n, int64_t wanted);
  void continued(Expr x, Expr start, ops::Arg position, ops::Arg begin, std::vector<ValueId>& results);
  void sums(std::vector<ValueId>& results);
  void logarithms(std::vector<ValueId>& results);
  void extremes(std::vector<ValueId>& results);
  void searchUneven(std::vector<ValueId>& results);
  void first(int64_t k, std::vector<ValueId>& results);

  // --- Splitting rows into parts, and back ---
  Expr parted(Expr x, ScalarValue fill) {
    if (p_.low + p_.high > 0) {
      std::vector<int64_t> low(shape_.size()), high(shape_.size());
      low[p_.dim] = p_.low, high[p_.dim] = p_.high;
      const ValueId value = isFloat(dtype_) ? b_.literal(fill.f, dtype_)
                                            : m_.makeLiteral(m_.attrs.integer(fill.i), dtype_, b_.loc);
      x = ops::pad(x, {.value = value, .low = low, .high = high});
    }
    std::vector<int64_t> split = shape_;
    split[p_.dim] = p_.length;
    split.insert(split.begin() + dim(), p_.parts);
    return ops::reshape(x, split);
  }
  // Partial results are combined as [.., parts, length, ..] if that reshapes to the row, else on the elements
  // of the row: the padding of a part is not computed just to be sliced off.
  [[nodiscard]] bool uneven() const { return p_.low + p_.high > 0; }
  Expr inRow(Expr x) {
    if (!uneven()) return x;
    std::vector<int64_t> split = shape_, joined = shape_, start(shape_.size()), limit = shape_;
    split[p_.dim] = p_.length;
    split.insert(split.begin() + dim(), p_.parts);
    joined[p_.dim] = p_.parts * p_.length;
    if (x.type().staticShape() != split) x = ops::broadcast(x, split);
    start[p_.dim] = p_.low, limit[p_.dim] += p_.low;
    return ops::slice(ops::reshape(x, joined), {.start = start, .limit = limit});
  }
  Expr unsplit(Expr x) { return uneven() ? x : ops::reshape(x, shape_); }
  [[nodiscard]] int64_t dim() const { return static_cast<int64_t>(p_.dim); }
  [[nodiscard]] int64_t along() const { return dim() + 1; } // the dim of the elements within a part

  // --- Op helpers ---
  // keepdim: size 1
  static Expr largest(Expr x, int64_t dim) { return ops::max(x, {.dims = {dim}, .keepdim = true}); }
  static Expr smallest(Expr x, int64_t dim) { return ops::min(x, {.dims = {dim}, .keepdim = true}); }
  static Expr logOver(Expr x, int64_t dim) { return ops::logsumexp(x, {.dims = {dim}, .keepdim = true}); }
  Expr bestOver(Expr x, int64_t dim) { return isMax() ? largest(x, dim) : smallest(x, dim); }
  Expr totalOver(Expr x, int64_t dim) {
    return isProduct() ? ops::prod(x, {.dims = {dim}, .keepdim = true})
                       : ops::sum(x, {.dims = {dim}, .keepdim = true});
  }
  [[nodiscard]] bool isMax() const { return m_.record(o_).combines == PendingKind::Max; }
  [[nodiscard]] bool isProduct() const { return m_.record(o_).combines == PendingKind::Prod; }
  // The op itself, on x.
  std::vector<Expr> scanOf(Expr x, int64_t dim, bool exclusive) {
    const ValueId in[] = {x};
    const AttrList attrs = {{m_.strings.intern("dim"), b_.integer(dim)},
                            {m_.strings.intern("reverse"), b_.boolean(reverse_)},
                            {m_.strings.intern("exclusive"), b_.boolean(exclusive)}};
    return ops::detail::all(b_, b_.op(m_[o_].kind, in, attrs));
  }
  // An iota along one dim of this shape.
  Expr counted(int64_t dim, int64_t size, size_t rank) {
    std::vector<Dim> dims(rank, Dim(1));
    dims[static_cast<size_t>(dim)] = Dim(size);
    return ops::iota(b_, m_.tensorType(DType::I32, dims), {.dim = dim});
  }
  // The offset of each part in the row.
  Expr begins() {
    const Expr at = counted(dim(), p_.parts, shape_.size() + 1) * p_.length;
    return p_.low == 0 ? at : at - p_.low;
  }
  Expr same(Expr x, Expr best) {
    const Expr equal = ops::eq(x, best);
    return isFloat(dtype_) ? equal | ops::is_nan(x) : equal;
  }
  [[nodiscard]] ScalarValue neutral(PendingKind kind) const { return reduceIdentity(kind, dtype_); }

  Module& m_;
  OpId o_;
  Builder& b_;
  std::string_view name_;
  Expr x_;
  DType dtype_;
  std::vector<int64_t> shape_;
  RowParts p_;
  bool reverse_ = false, exclusive_ = false;
};

// Equal parts whose length is a multiple of 8, if a suitable divisor exists; otherwise the row is padded at
// its end in the op's order.
void RowSplitter::splitEvenly(int64_t n, int64_t wanted) {
  for (p_.parts = wanted; p_.parts * 2 > wanted; --p_.parts)
    if (n % (8 * p_.parts) == 0) {
      p_.length = n / p_.parts;
      return;
    }
  p_.length = ((n + wanted - 1) / wanted + 7) / 8 * 8;
  p_.parts = (n + p_.length - 1) / p_.length;
  (reverse_ ? p_.low : p_.high) = p_.parts * p_.length - n;
}

// True if the rows are long and few, with parts of at least `minLength` elements if contiguous.
bool RowSplitter::chooseParts(int64_t minLength) {
  int64_t rows = 1, adjacent = 1;
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (d != p_.dim) rows *= shape_[d];
    if (d > p_.dim) adjacent *= shape_[d];
  }
  const int64_t n = shape_[p_.dim],
                blocks = adjacent >= kAdjacentRows ? (rows + kAdjacentRows - 1) / kAdjacentRows : rows;
  if (rows == 0 || n > INT32_MAX / 2 || n * rows < kMinRowElements || blocks > kFewBlocks) return false;
  const int64_t wanted = std::min(kBlocks / blocks, n / (adjacent > 1 ? kMinStrided : minLength));
  if (wanted < kMinRowParts) return false;
  splitEvenly(n, wanted);
  return true;
}

// The scan of each part, including the prefix of the parts before it.
void RowSplitter::continued(Expr x, Expr start, ops::Arg position, ops::Arg begin,
                            std::vector<ValueId>& results) {
  for (Expr y : ops::scan_part(x, start,
                               {.place = position,
                                .begin = begin,
                                .scan = name_,
                                .dim = along(),
                                .reverse = reverse_,
                                .exclusive = exclusive_}))
    if (y.valid()) results.push_back(unsplit(y));
}

// The scan of each part, and its prefix.
void RowSplitter::sums(std::vector<ValueId>& results) {
  if (!uneven()) {
    const Expr x = parted(x_, {}), totals = totalOver(x.as(accumulationType(dtype_)), along());
    return continued(x, scanOf(totals, dim(), true)[0], {}, {}, results);
  }
  const Expr x = parted(x_, neutral(m_.record(o_).combines)).as(accumulationType(dtype_));
  const Expr before = inRow(scanOf(totalOver(x, along()), dim(), true)[0]);
  const Expr own = inRow(scanOf(x, along(), exclusive_)[0]);
  results.push_back(unsplit(isProduct() ? before * own : before + own).as(dtype_));
}

void RowSplitter::logarithms(std::vector<ValueId>& results) {
  if (!uneven()) {
    const Expr x = parted(x_, {}), totals = logOver(x.as(accumulationType(dtype_)), along());
    return continued(x, scanOf(totals, dim(), true)[0], {}, {}, results);
  }
  const Expr x = parted(x_, {-INFINITY, 0}).as(accumulationType(dtype_));
  const Expr before = inRow(scanOf(logOver(x, along()), dim(), true)[0]),
             own = inRow(scanOf(x, along(), exclusive_)[0]);
  // log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)); infinities are not subtracted.
  const Expr maximum = ops::max(before, own);
  const Expr more = ops::log1p(ops::exp(-ops::abs(before - own)));
  results.push_back(unsplit(maximum + ops::select(ops::is_inf(maximum), 0, more)).as(dtype_));
}

// The values, and the last index of each in the scan's order.
void RowSplitter::extremes(std::vector<ValueId>& results) {
  const Expr x = parted(x_, neutral(m_.record(o_).combines)), total = bestOver(x, along());
  // The index of the last element of a part that equals its total.
  const Expr first = begins(), positions = first + counted(along(), p_.length, shape_.size() + 1);
  const int64_t nowhere = reverse_ ? std::numeric_limits<int32_t>::max() : -1;
  const Expr found = ops::select(same(x, total), positions, nowhere),
             last = reverse_ ? smallest(found, along()) : largest(found, along());
  // Among the preceding parts: the last one with the best value.
  const std::vector<Expr> before = scanOf(total, dim(), true);
  const Expr part = before[1], started = part >= 0, known = ops::max(part, 0);
  const Expr stood = ops::select(started, ops::gather(last, known, {.dim = dim()}), -1);
  if (!uneven()) {
    std::vector<int64_t> rows = shape_; // one per part of each row
    rows[p_.dim] = 1;
    rows.insert(rows.begin() + dim(), p_.parts);
    const Expr begin = ops::broadcast(begins(), rows);
    return continued(x, before[0], stood, begin, results);
  }
  const std::vector<Expr> own = scanOf(x, along(), exclusive_);
  const Expr positionBefore = inRow(stood), mine = inRow(own[0]), at = inRow(own[1]),
             start = inRow(before[0]);
  const Expr value = isMax() ? ops::max(start, mine) : ops::min(start, mine), equal = same(mine, value),
             here = equal & (at >= 0), position = at + inRow(begins());
  results = {unsplit(value), unsplit(ops::select(here, position, positionBefore))};
}

// The first part with the best value.
void RowSplitter::searchUneven(std::vector<ValueId>& results) {
  const Expr x = parted(x_, neutral(m_.record(o_).combines));
  const Expr own = isMax() ? ops::argmax(x, {.dim = along(), .keepdim = true})
                           : ops::argmin(x, {.dim = along(), .keepdim = true});
  const Expr index = own + begins(), value = bestOver(x, along()), has = same(value, bestOver(value, dim()));
  const Expr y = smallest(ops::select(has, index, std::numeric_limits<int32_t>::max()), dim());
  results.push_back(ops::reshape(y, m_.typeOf(m_.result(o_)).dims));
}

// The first k of each part, concatenated in part order, so that the selection is stable; then the first k of
// those.
void RowSplitter::first(int64_t k, std::vector<ValueId>& results) {
  Diagnostics none;
  const bool descending = queryOf(m_, o_, none).boolAttr("descending");
  ScalarValue sortsLast = neutral(descending ? PendingKind::Max : PendingKind::Min);
  if (!descending) sortsLast.f = std::numeric_limits<double>::quiet_NaN();
  const auto own = ops::topk(parted(x_, sortsLast), {.k = k, .dim = along(), .descending = descending});
  std::vector<int64_t> all = shape_;
  all[p_.dim] = p_.parts * k;
  const Expr values = ops::reshape(own[0], all), indices = ops::reshape(own[1] + begins(), all);
  const auto merged = ops::topk(values, {.k = k, .dim = dim(), .descending = descending});
  std::vector<ValueId> further;
  results = {merged[0], merged[1]};
  if (const OpId o = m_.definingOp(merged[0]); RowSplitter(m_, o, b_).select(k, further)) {
    std::erase(b_.out, o);
    results = further;
  }
  results[1] = ops::gather(indices, results[1], {.dim = dim()});
}

// A scan with a split row, if it is long.
ValueId scanned(Builder& b, OpId scan) {
  std::vector<ValueId> parts;
  if (!RowSplitter(b.module, scan, b).scan(parts)) return b.module.result(scan);
  std::erase(b.out, scan);
  return parts[0];
}

// The full order of long strided rows, as [rows, n].
bool RowSplitter::order(bool severalRows, std::vector<ValueId>& results) {
  const Type type = m_.typeOf(x_);
  if (!type.isStatic() || type.rank() == 0) return false;
  Diagnostics none;
  const OpQuery q = queryOf(m_, o_, none);
  shape_ = type.staticShape();
  p_.dim = static_cast<size_t>(*q.dimAttr("dim", shape_.size()));
  const int64_t n = shape_[p_.dim];
  if (n <= kSortedTogether || n > INT32_MAX / 2 || isComplex(dtype_)) return false;
  std::vector<int64_t> perm, back(shape_.size()), moved;
  for (size_t d = 0; d < shape_.size(); ++d)
    if (d != p_.dim) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(dim());
  int64_t rows = 1;
  for (size_t d = 0; d < perm.size(); ++d) {
    back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
    moved.push_back(shape_[static_cast<size_t>(perm[d])]);
    rows *= moved.back();
  }
  if (rows == 0 || (rows > n && !severalRows)) return false;
  const bool strided = p_.dim + 1 < shape_.size();
  Expr x = strided ? ops::transpose(x_, perm) : x_;
  x = RowSorter(b_, q.boolAttr("descending"), scanned).order(ops::reshape(x, std::vector{rows / n, n}));
  x = ops::reshape(x, moved);
  results.push_back(strided ? ops::transpose(x, back) : x);
  return true;
}

// False if the op is not along static rows of numbers; otherwise reads the row's dim and direction.
bool RowSplitter::readRow() {
  const Type type = m_.typeOf(x_);
  if (!type.isStatic() || isComplex(dtype_) || isBool(dtype_) ||
      dtype_ == DType::U64) // the padding of u64 rows has no literal
    return false;
  shape_ = type.staticShape();
  Diagnostics none;
  p_.dim = static_cast<size_t>(*queryOf(m_, o_, none).dimAttr("dim", shape_.size()));
  return true;
}

bool RowSplitter::scan(std::vector<ValueId>& results) {
  if (!readRow()) return false;
  Diagnostics none;
  const OpQuery q = queryOf(m_, o_, none);
  reverse_ = q.boolAttr("reverse"), exclusive_ = q.boolAttr("exclusive");
  if (!chooseParts(kMinContiguous)) return false;
  if (m_[o_].numResults == 2)
    extremes(results);
  else
    m_.record(o_).combines == PendingKind::None ? logarithms(results) : sums(results);
  return true;
}

bool RowSplitter::search(std::vector<ValueId>& results) {
  if (!readRow() || !chooseParts(kMinContiguous)) return false;
  searchUneven(results);
  return true;
}

bool RowSplitter::select(int64_t k, std::vector<ValueId>& results) {
  if (!readRow()) return false;
  const int64_t n = shape_[p_.dim];
  if (k == 0 || k > kMaxOfOrdered || n <= kMinRowParts * kOrdered || n > INT32_MAX / 2) return false;
  p_.length = kOrdered, p_.parts = (n + kOrdered - 1) / kOrdered;
  p_.high = p_.parts * p_.length - n;
  first(k, results);
  return true;
}

// The number of leading elements of each row that slices read from its result; 0 if it has any other use.
int64_t firstRead(Module& m, OpId argsort, std::span<const OpId> readers) {
  const ValueId y = m.result(argsort);
  const Type type = m.typeOf(y);
  if (!type.isStatic()) return 0;
  Diagnostics none;
  const auto at = static_cast<size_t>(*queryOf(m, argsort, none).dimAttr("dim", type.rank()));
  int64_t k = 0;
  for (OpId reader : readers) {
    if (!reader.valid() || m.record(reader).name != std::string_view("slice")) return 0;
    const Type part = m.typeOf(m.result(reader));
    const OpQuery q = queryOf(m, reader, none);
    for (int64_t start : q.intsAttr("start"))
      if (start != 0) return 0;
    for (size_t d = 0; d < type.rank(); ++d)
      if (d != at && part.dims[d] != type.dims[d]) return 0;
    const std::vector<int64_t> stride = q.intsAttr("stride");
    if (!stride.empty() && stride[at] != 1) return 0;
    if (k != 0 && part.dims[at].value() != k) return 0;
    k = part.dims[at].value();
  }
  return k;
}

} // namespace

bool splitScan(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return RowSplitter(b.module, o, b).scan(results);
}
bool splitArg(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return RowSplitter(b.module, o, b).search(results);
}
bool splitTopk(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  Diagnostics none;
  return RowSplitter(b.module, o, b).select(queryOf(b.module, o, none).intAttr("k"), results);
}
bool splitArgsort(Builder& b, OpId o, RowSplit& use, std::vector<ValueId>& results) {
  const int64_t k = firstRead(b.module, o, use.readers);
  if (k == 0 || !RowSplitter(b.module, o, b).select(k, results))
    return RowSplitter(b.module, o, b).order(use.gpu, results);
  results.erase(results.begin()); // the values
  return use.replacesReaders = true;
}

} // namespace dtc
