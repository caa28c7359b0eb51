// Before ops are grouped: scans and searches along few long rows, part by part.
#include "SplitRows.h"
#include "SortRows.h"
#include "SplitNorms.h"
#include "dtc/IR/Builder.h"
#include "dtc/Ops/Scalar.h"
#include "dtc/Passes/Clone.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace dtc {
namespace {

// A block of a GPU has one row that lies together, or 32 beside each other: fewer blocks than this leave most of it idle. Parts are
// this long at least, so that what they leave to combine is little.
constexpr int64_t kLeastElements = 1 << 18, kBlocks = 1 << 9, kFewBlocks = 1 << 6;
constexpr int64_t kLeastTogether = 1 << 12, kLeastApart = 1 << 7, kBeside = 32;
constexpr int64_t kLeastParts = 4;
// What a block of a GPU orders in shared memory, and how many of the first it may pass on.
constexpr int64_t kOrdered = 1 << 12, kMostOfOrdered = kOrdered / 8;
// Rows of more elements than a cluster's eight blocks order in shared memory are sorted by all blocks. Cores have a row each where there
// are several, and read it from their caches.
constexpr int64_t kSortedTogether = 8 * kOrdered;

// x[.., n, ..] as [.., parts, length, ..], filled up before or behind the row.
struct RowParts {
  size_t dim = 0;
  int64_t parts = 0, length = 0, low = 0, high = 0;
};

class RowSplitter {
public:
  RowSplitter(Module& m, OpId o, Builder& b)
      : m_(m), o_(o), b_(b), name_(m.record(o).name), x_(m.operand(o, 0)), dtype_(m.typeOf(x_).dtype) {}

  // False: the op stays as it is. Else the values that take the place of its results; of an argsort of which only the first `k` are
  // read, those of topk.
  // `blocks`: the rows are a GPU's, and orders of several are worth splitting, too.
  bool run(std::vector<ValueId>& results, int64_t k = 0, bool blocks = false);

private:
  bool cut(int64_t least);
  void cutEvenly(int64_t n, int64_t wanted);
  void continued(std::initializer_list<ValueId> operands, std::vector<ValueId>& results);
  void sums(std::vector<ValueId>& results);
  void logarithms(std::vector<ValueId>& results);
  void extremes(std::vector<ValueId>& results);
  void place(std::vector<ValueId>& results);
  void first(int64_t k, std::vector<ValueId>& results);
  bool order(bool descending, bool several, std::vector<ValueId>& results);

  // --- the rows as parts, and back ---
  ValueId parted(ValueId x, ScalarValue fill) {
    if (p_.low + p_.high > 0) {
      std::vector<int64_t> low(shape_.size()), high(shape_.size());
      low[p_.dim] = p_.low, high[p_.dim] = p_.high;
      const ValueId value = isFloat(dtype_) ? b_.literal(fill.f, dtype_)
                                            : m_.makeLiteral(m_.attrs.integer(fill.i), dtype_, b_.loc);
      x = b_.value("pad", {x, value}, {{"low", b_.ints(low)}, {"high", b_.ints(high)}});
    }
    std::vector<int64_t> cut = shape_;
    cut[p_.dim] = p_.length;
    cut.insert(cut.begin() + dim(), p_.parts);
    return reshaped(x, cut);
  }
  // What the parts give is combined as [.., parts, length, ..] where that is the row, else element by element of the row: what fills
  // up a part is not computed only to be cut off.
  [[nodiscard]] bool uneven() const { return p_.low + p_.high > 0; }
  ValueId inRow(ValueId x) {
    if (!uneven()) return x;
    std::vector<int64_t> cut = shape_, joined = shape_, start(shape_.size()), limit = shape_;
    cut[p_.dim] = p_.length;
    cut.insert(cut.begin() + dim(), p_.parts);
    joined[p_.dim] = p_.parts * p_.length;
    if (m_.typeOf(x).staticShape() != cut) x = b_.value("broadcast", {x}, {{"shape", b_.ints(cut)}});
    start[p_.dim] = p_.low, limit[p_.dim] += p_.low;
    return b_.value("slice", {reshaped(x, joined)}, {{"start", b_.ints(start)}, {"limit", b_.ints(limit)}});
  }
  ValueId whole(ValueId x) { return uneven() ? x : reshaped(x, shape_); }
  ValueId reshaped(ValueId x, const std::vector<int64_t>& shape) {
    return b_.value("reshape", {x}, {{"shape", b_.ints(shape)}});
  }
  [[nodiscard]] int64_t dim() const { return static_cast<int64_t>(p_.dim); }
  [[nodiscard]] int64_t along() const { return dim() + 1; } // of a part

  // --- parts of the program ---
  ValueId integer(int64_t v) { return b_.literal(static_cast<double>(v), DType::I32); }
  ValueId convert(ValueId v, DType to) {
    return m_.typeOf(v).dtype == to ? v : b_.value("convert", {v}, {{"dtype", b_.word(dtypeName(to))}});
  }
  ValueId over(std::string_view op, ValueId x, int64_t dim) { // it stays, with size 1
    return b_.value(op, {x}, {{"dims", b_.ints({&dim, 1})}, {"keepdim", b_.boolean(true)}});
  }
  OpId scan(ValueId x, int64_t dim, bool exclusive) {
    const ValueId in[] = {x};
    return b_.op(
        name_, in,
        {{"dim", b_.integer(dim)}, {"reverse", b_.boolean(reverse_)}, {"exclusive", b_.boolean(exclusive)}});
  }
  // Counts along one dim of a shape of so many dims.
  ValueId counted(int64_t dim, int64_t size, size_t rank) {
    std::vector<Dim> dims(rank, Dim(1));
    dims[static_cast<size_t>(dim)] = Dim(size);
    TypeId type[] = {m_.tensorType(DType::I32, dims)};
    return m_.result(b_.op("iota", {}, {{"dim", b_.integer(dim)}}, type));
  }
  // Where each part begins, in the row.
  ValueId begins() {
    const ValueId part = counted(dim(), p_.parts, shape_.size() + 1);
    const ValueId at = b_.value("mul", {part, integer(p_.length)});
    return p_.low == 0 ? at : b_.value("sub", {at, integer(p_.low)});
  }
  ValueId same(ValueId x, ValueId best) {
    const ValueId equal = b_.value("eq", {x, best});
    return isFloat(dtype_) ? b_.value("or", {equal, b_.value("is_nan", {x})}) : equal;
  }
  [[nodiscard]] ScalarValue neutral(PendingKind kind) const { return reduceIdentity(kind, dtype_); }

  Module& m_;
  OpId o_;
  Builder& b_;
  std::string_view name_;
  ValueId x_;
  DType dtype_;
  std::vector<int64_t> shape_;
  RowParts p_;
  bool reverse_ = false, exclusive_ = false;
};

// Equal parts of a multiple of 8 elements where there are such near the wanted number, else what is missing is filled up: where
// nothing stands behind it in the order of the op.
void RowSplitter::cutEvenly(int64_t n, int64_t wanted) {
  for (p_.parts = wanted; p_.parts * 2 > wanted; --p_.parts)
    if (n % (8 * p_.parts) == 0) {
      p_.length = n / p_.parts;
      return;
    }
  p_.length = ((n + wanted - 1) / wanted + 7) / 8 * 8;
  p_.parts = (n + p_.length - 1) / p_.length;
  (reverse_ ? p_.low : p_.high) = p_.parts * p_.length - n;
}

// Are the rows long and few? Parts of `least` elements at least, if they lie together.
bool RowSplitter::cut(int64_t least) {
  int64_t rows = 1, beside = 1;
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (d != p_.dim) rows *= shape_[d];
    if (d > p_.dim) beside *= shape_[d];
  }
  const int64_t n = shape_[p_.dim], blocks = beside >= kBeside ? (rows + kBeside - 1) / kBeside : rows;
  if (rows == 0 || n > INT32_MAX / 2 || n * rows < kLeastElements || blocks > kFewBlocks) return false;
  const int64_t wanted = std::min(kBlocks / blocks, n / (beside > 1 ? kLeastApart : least));
  if (wanted < kLeastParts) return false;
  cutEvenly(n, wanted);
  return true;
}

// The parts' own scans, each from what stands before it.
void RowSplitter::continued(std::initializer_list<ValueId> operands, std::vector<ValueId>& results) {
  const std::vector<ValueId> in(operands);
  const OpId own = b_.op("scan_part", in,
                         {{"scan", b_.module.attrs.string(b_.module.strings.intern(name_))},
                          {"dim", b_.integer(along())},
                          {"reverse", b_.boolean(reverse_)},
                          {"exclusive", b_.boolean(exclusive_)}});
  for (uint32_t r = 0; r < m_[own].numResults; ++r) results.push_back(whole(m_.result(own, r)));
}

// Each part by itself, and what stands before it.
void RowSplitter::sums(std::vector<ValueId>& results) {
  const bool product = name_ == "cumprod";
  if (!uneven()) {
    const ValueId x = parted(x_, {});
    const ValueId totals = over(product ? "prod" : "sum", convert(x, accumulationType(dtype_)), along());
    return continued({x, m_.result(scan(totals, dim(), true))}, results);
  }
  const ValueId x =
      convert(parted(x_, neutral(product ? PendingKind::Prod : PendingKind::Sum)), accumulationType(dtype_));
  const ValueId totals = over(product ? "prod" : "sum", x, along());
  const ValueId before = inRow(m_.result(scan(totals, dim(), true)));
  const ValueId own = inRow(m_.result(scan(x, along(), exclusive_)));
  results.push_back(convert(whole(b_.value(product ? "mul" : "add", {before, own})), dtype_));
}

void RowSplitter::logarithms(std::vector<ValueId>& results) {
  if (!uneven()) {
    const ValueId x = parted(x_, {});
    const ValueId totals = over("logsumexp", convert(x, accumulationType(dtype_)), along());
    return continued({x, m_.result(scan(totals, dim(), true))}, results);
  }
  const ValueId x = convert(parted(x_, {-INFINITY, 0}), accumulationType(dtype_));
  const ValueId before = inRow(m_.result(scan(over("logsumexp", x, along()), dim(), true))),
                own = inRow(m_.result(scan(x, along(), exclusive_)));
  // log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)); infinities are not subtracted.
  const ValueId most = b_.value("max", {before, own});
  const ValueId apart = b_.value("neg", {b_.value("abs", {b_.value("sub", {before, own})})});
  const ValueId more = b_.value("log1p", {b_.value("exp", {apart})});
  const ValueId zero = b_.literal(0, m_.typeOf(x).dtype);
  const ValueId sum = b_.value("add", {most, b_.value("select", {b_.value("is_inf", {most}), zero, more})});
  results.push_back(convert(whole(sum), dtype_));
}

// Values, and the last place of each in the scan's order.
void RowSplitter::extremes(std::vector<ValueId>& results) {
  const bool greatest = name_ == "cummax";
  const char* best = greatest ? "max" : "min";
  const ValueId x = parted(x_, neutral(greatest ? PendingKind::Max : PendingKind::Min)), none = integer(-1);
  const ValueId total = over(best, x, along());
  // Where the last element of a part that is its total stands.
  const ValueId places = b_.value("add", {begins(), counted(along(), p_.length, shape_.size() + 1)});
  const ValueId nowhere = reverse_ ? integer(std::numeric_limits<int32_t>::max()) : none;
  const ValueId last =
      over(reverse_ ? "min" : "max", b_.value("select", {same(x, total), places, nowhere}), along());
  // Of the parts before: the last that has the best value.
  const OpId before = scan(total, dim(), true);
  const ValueId part = m_.result(before, 1), started = b_.value("ge", {part, integer(0)});
  const ValueId at =
      b_.value("gather", {last, b_.value("max", {part, integer(0)})}, {{"dim", b_.integer(dim())}});
  const ValueId stood = b_.value("select", {started, at, none});
  if (!uneven()) {
    std::vector<int64_t> rows = shape_; // one a part, of each row
    rows[p_.dim] = 1;
    rows.insert(rows.begin() + dim(), p_.parts);
    const ValueId begin = b_.value("broadcast", {begins()}, {{"shape", b_.ints(rows)}});
    return continued({x, m_.result(before), stood, begin}, results);
  }
  const OpId own = scan(x, along(), exclusive_);
  const ValueId placeBefore = inRow(stood);
  const ValueId mine = inRow(m_.result(own)), found = inRow(m_.result(own, 1));
  const ValueId value = b_.value(best, {inRow(m_.result(before)), mine});
  const ValueId here = b_.value("and", {same(mine, value), b_.value("ge", {found, integer(0)})});
  const ValueId place = b_.value("add", {found, inRow(begins())});
  results = {whole(value), whole(b_.value("select", {here, place, placeBefore}))};
}

// Of the parts that have the best value, the first.
void RowSplitter::place(std::vector<ValueId>& results) {
  const bool greatest = name_ == "argmax";
  const char* best = greatest ? "max" : "min";
  const ValueId x = parted(x_, neutral(greatest ? PendingKind::Max : PendingKind::Min));
  const ValueId own = b_.value(name_, {x}, {{"dim", b_.integer(along())}, {"keepdim", b_.boolean(true)}});
  const ValueId index = b_.value("add", {own, begins()}), value = over(best, x, along());
  const ValueId has = same(value, over(best, value, dim()));
  ValueId y =
      over("min", b_.value("select", {has, index, integer(std::numeric_limits<int32_t>::max())}), dim());
  std::vector<int64_t> shape;
  for (const Dim& d : m_.typeOf(m_.result(o_)).dims) shape.push_back(d.value());
  results.push_back(reshaped(y, shape));
}

// The k first of each part, in the order of the parts, so that the first of equals stays so; then the k first of those.
void RowSplitter::first(int64_t k, std::vector<ValueId>& results) {
  Diagnostics none;
  const bool descending = queryOf(m_, o_, none).boolAttr("descending");
  auto best = [&](ValueId x, int64_t dim) {
    const ValueId in[] = {x};
    return b_.op("topk", in,
                 {{"k", b_.integer(k)}, {"dim", b_.integer(dim)}, {"descending", b_.boolean(descending)}});
  };
  ScalarValue behindAll = neutral(descending ? PendingKind::Max : PendingKind::Min);
  if (!descending) behindAll.f = std::numeric_limits<double>::quiet_NaN();
  const OpId own = best(parted(x_, behindAll), along());
  std::vector<int64_t> all = shape_;
  all[p_.dim] = p_.parts * k;
  const ValueId values = reshaped(m_.result(own), all),
                indices = reshaped(b_.value("add", {m_.result(own, 1), begins()}), all);
  const OpId merged = best(values, dim());
  std::vector<ValueId> further;
  results = {m_.result(merged), m_.result(merged, 1)};
  if (RowSplitter(m_, merged, b_).run(further)) {
    std::erase(b_.out, merged);
    results = further;
  }
  results[1] = b_.value("gather", {indices, results[1]}, {{"dim", b_.integer(dim())}});
}

// A scan whose row is cut into parts where it is long.
ValueId splitScan(Builder& b, OpId scan) {
  std::vector<ValueId> parts;
  if (!RowSplitter(b.module, scan, b).run(parts)) return b.module.result(scan);
  std::erase(b.out, scan);
  return parts[0];
}

// The whole order of long rows, beside each other as [rows, n].
bool RowSplitter::order(bool descending, bool several, std::vector<ValueId>& results) {
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
  if (rows == 0 || (rows > n && !several)) return false;
  const bool behind = p_.dim + 1 < shape_.size();
  ValueId x = behind ? b_.value("transpose", {x_}, {{"perm", b_.ints(perm)}}) : x_;
  x = RowSorter(b_, descending, splitScan).order(reshaped(x, {rows / n, n}));
  x = reshaped(x, moved);
  results.push_back(behind ? b_.value("transpose", {x}, {{"perm", b_.ints(back)}}) : x);
  return true;
}

bool RowSplitter::run(std::vector<ValueId>& results, int64_t k, bool blocks) {
  const bool extreme = name_ == "cummax" || name_ == "cummin", sum = name_ == "cumsum" || name_ == "cumprod",
             logarithm = name_ == "logcumsumexp", argument = name_ == "argmax" || name_ == "argmin";
  const Type type = m_.typeOf(x_);
  const bool few = name_ == "topk" || (name_ == "argsort" && k > 0);
  if (name_ == "argsort" && k == 0 && type.isStatic() && type.rank() > 0) {
    Diagnostics none;
    const OpQuery q = queryOf(m_, o_, none);
    shape_ = type.staticShape();
    p_.dim = static_cast<size_t>(*q.dimAttr("dim", shape_.size()));
    return order(q.boolAttr("descending"), blocks, results);
  }
  if ((!extreme && !sum && !logarithm && !argument && !few) || !type.isStatic() || isComplex(dtype_) ||
      isBool(dtype_) || dtype_ == DType::U64) // what fills up rows of u64 has no literal
    return false;
  Diagnostics none;
  const OpQuery q = queryOf(m_, o_, none);
  shape_ = type.staticShape();
  p_.dim = static_cast<size_t>(*q.dimAttr("dim", shape_.size()));
  if (few) {
    const int64_t n = shape_[p_.dim];
    if (name_ == "topk") k = q.intAttr("k");
    if (k == 0 || k > kMostOfOrdered || n <= kLeastParts * kOrdered || n > INT32_MAX / 2) return false;
    p_.length = kOrdered, p_.parts = (n + kOrdered - 1) / kOrdered;
    p_.high = p_.parts * p_.length - n;
    first(k, results);
    return true;
  }
  if (!argument) reverse_ = q.boolAttr("reverse"), exclusive_ = q.boolAttr("exclusive");
  if (!cut(kLeastTogether)) return false;
  if (argument)
    place(results);
  else
    sum ? sums(results) : logarithm ? logarithms(results) : extremes(results);
  return true;
}

} // namespace

namespace {

class BlockSplitter {
public:
  BlockSplitter(Module& m, Diagnostics& diags, bool blocks) : m_(m), diags_(diags), blocks_(blocks) {}
  void run(BlockId block);
  void countReaders(BlockId block);

private:
  [[nodiscard]] int64_t firstRead(OpId argsort);
  Module& m_;
  Diagnostics& diags_;
  bool blocks_;
  ValueMap map_;
  std::unordered_map<uint32_t, std::vector<OpId>> readers_; // by value; invalid: what ends a block
};

void BlockSplitter::countReaders(BlockId block) {
  for (OpId o : m_[block].ops) {
    for (ValueId v : m_.operands(o)) readers_[v.index].push_back(o);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) countReaders(m_.region(o, r));
  }
  for (ValueId v : m_[block].yields) readers_[v.index].push_back(OpId());
}

// How many elements of each row, from the first on, are read of its result by slices; 0 where anything else is.
int64_t BlockSplitter::firstRead(OpId argsort) {
  const ValueId y = m_.result(argsort);
  const Type type = m_.typeOf(y);
  if (!type.isStatic()) return 0;
  const auto at = static_cast<size_t>(*queryOf(m_, argsort, diags_).dimAttr("dim", type.rank()));
  int64_t k = 0;
  for (OpId reader : readers_[y.index]) {
    if (!reader.valid() || m_.record(reader).name != std::string_view("slice")) return 0;
    const Type part = m_.typeOf(m_.result(reader));
    const OpQuery q = queryOf(m_, reader, diags_);
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

void BlockSplitter::run(BlockId block) {
  std::vector<OpId> out;
  Builder b(m_, block, out, diags_);
  auto replace = [&](ValueId old, ValueId made) {
    if (!m_[made].name.valid()) m_[made].name = m_[old].name;
    map_.set(old, made);
  };
  for (OpId o : std::vector<OpId>(m_[block].ops)) {
    if (m_[o].numResults == 1 && map_(m_.result(o)) != m_.result(o)) continue;
    for (ValueId& v : m_.operands(o)) v = map_(v);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r)
      if (m_.record(o).regions != RegionKind::Fused) run(m_.region(o, r));
    if (m_[o].numOperands == 0) { // has no rows
      out.push_back(o);
      continue;
    }
    b.loc = m_[o].loc;
    const int64_t k = m_.record(o).name == std::string_view("argsort") ? firstRead(o) : 0;
    std::vector<ValueId> results;
    if (k > 0 && RowSplitter(m_, o, b).run(results, k))
      for (OpId slice : readers_[m_.result(o).index]) replace(m_.result(slice), results[1]);
    else if (RowSplitter(m_, o, b).run(results, 0, blocks_) || splitNorm(m_, o, b, results))
      for (uint32_t r = 0; r < results.size(); ++r) replace(m_.result(o, r), results[r]);
    else
      out.push_back(o);
  }
  m_[block].ops = std::move(out);
  for (ValueId& v : m_[block].yields) v = map_(v);
}

} // namespace

void splitRows(Module& m, BlockId block, bool blocks, Diagnostics& diags) {
  BlockSplitter splitter(m, diags, blocks);
  splitter.countReaders(block);
  splitter.run(block);
}

} // namespace dtc
