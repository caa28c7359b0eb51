#include "window/Window.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/infer/RuleText.h"
#include "record/ShapeParts.h"
#include "window/WindowMath.h"
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

namespace dtc {

constexpr HostMath kHost;

int64_t largestShard(int64_t size, const ShardedFactor& factor) {
  return size / factor.devices + (size % factor.devices != 0);
}

Expr trimmed(Expr v, size_t dim, int64_t size, const ShardedFactor& factor) {
  if (size % factor.devices == 0) return v;
  return trim_piece(v, {.dim = dim, .size = Dim(size), .axes = factor.axes});
}

WindowRead rowsSeen(ValueId x, int64_t size, int64_t result, int64_t stride, int64_t low, int64_t reach,
                    ValueId fill) {
  WindowRead r{.result = result, .scale = stride, .first = -low, .last = reach - 1 - low, .fill = fill};
  r.sources.push_back({.x = x, .size = size});
  if (!skipsRows(stride, reach)) return r;
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

Expr integer(ShardedOp& op, int64_t v, DType type) {
  return op.value(op.b.module.makeLiteral(op.b.module.attrs.integer(v), type, op.b.loc));
}

uint16_t addWindow(Rule& rule, Dim size, std::string name, FactorKind kind) {
  return addFactor(rule, size, std::move(name), kind);
}

DimMap windowDim(DimMap own, uint16_t shardedAs) {
  own.shardedAs = {{shardedAs, 1}};
  return own;
}

bool WindowFetch::Part::sent() const {
  return std::any_of(pairs.begin(), pairs.end(), [](auto& p) { return p.first != p.second; });
}

int64_t WindowFetch::hostFirst(const WindowRead& r, int64_t device) const {
  return firstRowOf(kHost, r, factor_.devices, device);
}

int64_t WindowFetch::hostEnd(const WindowRead& r, int64_t device) const {
  const int64_t begin = shardBegin(kHost, r.result, factor_.devices, device),
                end = shardBegin(kHost, r.result, factor_.devices, device + 1);
  if (begin == end) return hostFirst(r, device);
  return std::max(floorDivide(r.scale * (end - 1) + r.last, r.divide) + 1, hostFirst(r, device));
}

int64_t WindowFetch::rows(size_t read) const {
  int64_t max = 1;
  for (int64_t i = 0; i < factor_.devices; ++i)
    max = std::max(max, hostEnd(reads_[read], i) - hostFirst(reads_[read], i));
  return max;
}

bool WindowFetch::fits() const {
  const DimTable& dims = op_.b.module.dims;
  for (const WindowRead& r : reads_)
    for (const WindowSource& s : r.sources) {
      if (!dims.expr(op_.typeOf(s.x).dims[dim_]).symbols.empty()) return false;
    }
  return true;
}

void WindowFetch::plan() {
  for (size_t r = 0; r < reads_.size(); ++r)
    for (size_t s = 0; s < reads_[r].sources.size(); ++s) {
      WindowSource& source = reads_[r].sources[s];
      if (source.length == 0) source.length = source.size;
      planSource(r, s);
    }
  std::vector<std::vector<Part>> byRead(reads_.size());
  for (Part& p : parts_) byRead[p.read].push_back(std::move(p));
  parts_.clear();
  for (size_t r = 0; r < reads_.size(); ++r) {
    mergeEqual(r, byRead[r]);
    std::move(byRead[r].begin(), byRead[r].end(), std::back_inserter(parts_));
  }
}

// Merges parts that are read and written alike, if they tile the buffer (for a roll, the last device reads
// from the first).
void WindowFetch::mergeEqual(size_t read, std::vector<Part>& parts) const {
  std::vector<Part> merged;
  std::unordered_map<int64_t, std::vector<size_t>> written; // of the merged ones, by position in the buffer
  for (const Part& p : parts) {
    std::vector<size_t>& others = written[p.at];
    const auto same = std::ranges::find_if(others, [&](size_t q) { return mayBeOne(p, merged[q]); });
    if (same == others.end()) {
      others.push_back(merged.size());
      merged.push_back(p);
    } else {
      merged[*same].pairs.insert(merged[*same].pairs.end(), p.pairs.begin(), p.pairs.end());
    }
  }
  std::sort(merged.begin(), merged.end(), [](const Part& p, const Part& q) { return p.at < q.at; });
  if (tiles(merged, rows(read))) parts = std::move(merged);
}

bool WindowFetch::mayBeOne(const Part& p, const Part& q) const {
  const WindowSource &s = reads_[p.read].sources[p.source], &t = reads_[q.read].sources[q.source];
  auto everywhere = [](const Part& part) {
    return part.sameStart && part.sameAt && part.sameLength && part.sent();
  };
  const bool alike = s.x == t.x && s.step == t.step && s.order == t.order && everywhere(p) && everywhere(q) &&
                     p.start == q.start && p.at == q.at && p.count == q.count;
  return alike && std::none_of(p.pairs.begin(), p.pairs.end(), [&](auto& a) {
           return std::any_of(q.pairs.begin(), q.pairs.end(),
                              [&](auto& b) { return a.first == b.first || a.second == b.second; });
         });
}

int64_t WindowFetch::senderNumber(const WindowSource& s, int64_t device) const {
  return s.order == SourceOrder::Mirrored ? factor_.devices - 1 - device : device;
}

void WindowFetch::planSource(size_t read, size_t source) {
  const WindowRead& r = reads_[read];
  const WindowSource& s = r.sources[source];
  const int64_t n = factor_.devices;
  using Key = std::pair<int64_t, int64_t>;
  std::map<Key, std::vector<Part>> byDistance, byOrder; // with one pair each
  std::vector<int64_t> begins;
  for (int64_t j = 0; j <= n; ++j) begins.push_back(sourceBegin(kHost, s, n, j));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t lo = hostFirst(r, i), hi = hostEnd(r, i);
    // The first shard that ends after lo.
    auto from = std::upper_bound(begins.begin() + 1, begins.end(), lo) - (begins.begin() + 1);
    for (int64_t j = from; j < n && begins[static_cast<size_t>(j)] < hi; ++j) {
      const int64_t length =
          std::min(hi, begins[static_cast<size_t>(j) + 1]) - std::max(lo, begins[static_cast<size_t>(j)]);
      if (length <= 0) continue;
      Part one{.read = read, .source = source, .key = j - i, .count = length};
      one.pairs = {{senderNumber(s, j), i}};
      one.start = takenFrom(kHost, r, s, n, i, j);
      one.at = positionOf(kHost, r, s, n, i, j);
      byDistance[{one.key, 0}].push_back(one);
      if (s.order != SourceOrder::Forward) continue;
      one.ordered = true;
      one.key = j - firstSource(kHost, r, s, n, i);
      one.target = i - firstTarget(kHost, r, s, n, j);
      byOrder[{one.key, one.target}].push_back(one);
    }
  }
  // Windows with a halo use the same few distances on every mesh; ops that stretch or shrink (a slice of one
  // half) do not.
  const bool orders = !byOrder.empty() && byOrder.size() < byDistance.size();
  for (auto& [key, pairs] : orders ? byOrder : byDistance) addLevels(pairs);
}

// The row counts at which the pairs of one rule are split. Each makes one operand; if there are very many,
// those are merged that add the fewest superfluous rows.
std::vector<int64_t> WindowFetch::levelsOf(std::span<const Part> pairs) {
  constexpr size_t kMaxLevels = 8;
  std::map<int64_t, int64_t> endings;
  for (const Part& p : pairs) ++endings[p.count];
  while (endings.size() > kMaxLevels) {
    auto cheapest = endings.end();
    int64_t cost = 0;
    for (auto i = endings.begin(); std::next(i) != endings.end(); ++i)
      if (const int64_t own = i->second * (std::next(i)->first - i->first);
          cheapest == endings.end() || own < cost)
        cheapest = i, cost = own;
    std::next(cheapest)->second += cheapest->second;
    endings.erase(cheapest);
  }
  std::vector<int64_t> levels;
  for (auto [rows, count] : endings) levels.push_back(rows);
  return levels;
}

// Every pair sends exactly its rows: first the rows that all pairs have, then those that only some have.
void WindowFetch::addLevels(std::span<const Part> pairs) {
  const WindowSource& s = sourceOf(pairs[0]);
  std::vector<int64_t> levels = levelsOf(pairs);
  const bool sent = std::any_of(pairs.begin(), pairs.end(), [](const Part& p) { return p.sent(); });
  if (!sent || s.order == SourceOrder::Repeated) levels = {levels.back()};
  int64_t skip = 0;
  for (const int64_t level : levels) {
    Part all;
    for (Part one : pairs) {
      if (one.count <= skip) continue;
      one.skip = skip;
      one.count = std::min(one.count, level) - skip;
      one.start += skip * s.step;
      one.at += skip;
      join(all, one);
    }
    parts_.push_back(std::move(all));
    skip = level;
  }
}

void WindowFetch::join(Part& all, const Part& one) {
  if (all.pairs.empty()) {
    all = one;
    return;
  }
  all.sameStart = all.sameStart && all.start == one.start;
  all.sameLength = all.sameLength && all.count == one.count;
  all.sameAt = all.sameAt && all.at == one.at;
  all.count = std::max(all.count, one.count);
  all.pairs.push_back(one.pairs.front());
}

// --- sender ---

bool WindowFetch::wide() const {
  int64_t max = 0;
  for (const WindowRead& r : reads_) {
    max = std::max({max, std::abs(r.scale) * r.result + std::abs(r.first) + std::abs(r.last), r.result});
    for (const WindowSource& s : r.sources)
      max = std::max({max, s.size, (s.step + r.divide) * (s.length + std::abs(s.base)) + std::abs(s.offset)});
  }
  return max >= (int64_t(1) << 30) / (4 * factor_.devices);
}

Expr WindowFetch::deviceIndex() {
  if (!index_.valid()) index_ = op_.convert(op_.index(factor_.axes), wide() ? DType::I64 : DType::I32);
  return index_;
}

Expr WindowFetch::firstRow(size_t read) {
  const Expr i = deviceIndex();
  return firstRowOf(DeviceMath{op_, op_.dtypeOf(i)}, reads_[read], factor_.devices, i);
}

Expr WindowFetch::firstResult(size_t read) {
  const Expr i = deviceIndex();
  return shardBegin(DeviceMath{op_, op_.dtypeOf(i)}, reads_[read].result, factor_.devices, i);
}

// The shard padded to the same size on every device, with room after it so that no slice is clamped; reversed
// if it is sent so.
Expr WindowFetch::prepare(const Part& part) {
  const WindowSource& source = sourceOf(part);
  const bool mirrored = source.order == SourceOrder::Mirrored;
  for (const Prepared& p : prepared_)
    if (p.from == source.x && p.mirrored == mirrored) return p.filled;
  int64_t room = 0;
  for (const Part& p : parts_) {
    const WindowSource& s = sourceOf(p);
    if (s.x != source.x || (s.order == SourceOrder::Mirrored) != mirrored) continue;
    for (auto [j, i] : p.pairs) {
      const int64_t start =
          p.sameStart
              ? p.start
              : takenFrom(kHost, reads_[p.read], s, factor_.devices, i, senderNumber(s, j)) + p.skip * s.step;
      room = std::max(room, start + rowsTaken(p) - largestShard(s.size, factor_));
    }
  }
  Expr x = op_.value(source.x);
  if (!op_.b.module.dims.expr(x.dims()[dim_]).axes.empty()) x = fill_piece(x, {.dim = dim_});
  if (mirrored) x = flip(x, {static_cast<int64_t>(dim_)});
  if (room > 0) {
    std::vector<int64_t> low(x.rank()), high = low;
    high[dim_] = room;
    x = pad(x, {.low = low, .high = high});
  }
  prepared_.push_back({source.x, x, mirrored});
  return x;
}

// From the first sent row of x to the last.
int64_t WindowFetch::rowsTaken(const Part& p) const {
  const WindowSource& s = sourceOf(p);
  return s.order == SourceOrder::Repeated ? 1 : (p.count - 1) * s.step + 1;
}

// What this device sends to the part's target.
Expr WindowFetch::take(const Part& p) {
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  Expr x = prepare(p);
  const int64_t taken = rowsTaken(p);
  std::vector<Dim> sizes = x.dims();
  std::vector<int64_t> start(sizes.size()), stride(sizes.size(), 1);
  stride[dim_] = s.step;
  const bool full = p.sameStart && p.start == 0 && sizes[dim_] == Dim(taken) && s.step == 1;
  if (full) return x;
  if (p.sameStart) {
    start[dim_] = p.start;
    sizes[dim_] = Dim(p.start + taken);
  } else {
    const Expr index = deviceIndex();
    const DeviceMath m{op_, op_.dtypeOf(index)};
    const Expr j = s.order == SourceOrder::Mirrored ? m.from(factor_.devices - 1, index) : index;
    const Expr i = p.ordered ? m.add(firstTarget(m, r, s, factor_.devices, j), p.target) : m.add(j, -p.key);
    std::vector<ops::Arg> starts(sizes.size(), m.number(0));
    starts[dim_] = m.add(takenFrom(m, r, s, factor_.devices, i, j), p.skip * s.step);
    sizes[dim_] = Dim(taken);
    x = dynamic_slice(x, starts, sizes);
    if (s.step == 1) return x;
  }
  return slice(x, {.start = start, .limit = sizes, .stride = stride});
}

// For each device, the rows that it receives from others instead of reading its own.
void WindowFetch::exchange(std::vector<ValueId>& values) {
  Builder& b = op_.b;
  std::vector<ValueId> operands;
  std::vector<size_t> sent;
  std::vector<AttrId> sends;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].sent()) continue;
    for (auto [from, to] : parts_[p].pairs)
      sends.push_back(b.ints(std::array{static_cast<int64_t>(operands.size()), from, to}));
    operands.push_back(values[p]);
    sent.push_back(p);
  }
  if (operands.empty()) return;
  const AttrId list = b.module.attrs.list(std::move(sends));
  const std::vector<Expr> got = ops::p2p(b, operands, {.axes = factor_.axes, .sends = list});
  for (size_t i = 0; i < sent.size(); ++i) values[sent[i]] = got[i];
}

// A row that is repeated on the line is sent once.
void WindowFetch::repeatRows(std::vector<ValueId>& values) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (sourceOf(parts_[p]).order != SourceOrder::Repeated || parts_[p].count == 1) continue;
    std::vector<Dim> shape = op_.typeOf(values[p]).dims;
    shape[dim_] = Dim(parts_[p].count);
    values[p] = broadcast(op_.value(values[p]), shape);
  }
}

// --- receiver ---

// Whether the parts are contiguous, at the same offset on every receiving device, and fill the buffer. A
// device that receives fewer rows has none there.
bool WindowFetch::tiles(std::span<const Part> parts, int64_t rows) {
  int64_t at = 0;
  for (const Part& p : parts) {
    if (!p.sameAt || !p.sameLength || !p.sameStart || p.at != at) return false;
    at += p.count;
  }
  return at == rows;
}

int64_t WindowFetch::hostPosition(const Part& p, int64_t i) const {
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  const bool mine = std::any_of(p.pairs.begin(), p.pairs.end(), [&](auto& pair) { return pair.second == i; });
  if (p.ordered && !mine) return rows(p.read);
  const int64_t j = p.ordered ? firstSource(kHost, r, s, factor_.devices, i) + p.key : i + p.key;
  return positionOf(kHost, r, s, factor_.devices, i, j) + p.skip;
}

// The max number of rows by which a device writes past the buffer.
int64_t WindowFetch::rowsAfter(const Part& p) const {
  const int64_t end = rows(p.read);
  int64_t max = 0;
  for (int64_t i = 0; i < factor_.devices; ++i)
    max = std::max(max, std::min(hostPosition(p, i), end) + p.count - end);
  return max;
}

// The offset at which this device writes the part.
Expr WindowFetch::startOf(const Part& p) {
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  const Expr i = deviceIndex();
  const DeviceMath m{op_, op_.dtypeOf(i)};
  if (p.ordered) {
    const Expr j = m.add(firstSource(m, r, s, factor_.devices, i), p.key);
    // A device of the same order may have received no part: it is then written past the end of the buffer.
    const Expr number = m.sub(i, firstTarget(m, r, s, factor_.devices, j));
    const Expr mine = eq(number, p.target);
    return select(mine, m.add(positionOf(m, r, s, factor_.devices, i, j, true), p.skip), rows(p.read));
  }
  const int64_t first = hostPosition(p, 0);
  bool same = true;
  for (int64_t d = 1; d < factor_.devices; ++d) same = same && hostPosition(p, d) == first;
  if (same) return m.number(first);
  return m.add(positionOf(m, r, s, factor_.devices, i, m.add(i, p.key), p.key == 0), p.skip);
}

Expr WindowFetch::assemble(size_t read, const std::vector<ValueId>& values) {
  Builder& b = op_.b;
  const WindowRead& r = reads_[read];
  std::vector<ValueId> own;
  std::vector<Part> parts;
  int64_t after = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].read != read) continue;
    own.push_back(values[p]);
    parts.push_back(parts_[p]);
    after = std::max(after, rowsAfter(parts_[p]));
  }
  if (tiles(parts, rows(read))) return own.size() == 1 ? op_.value(own[0]) : ops::concat(b, own, dim_);
  const int64_t length = rows(read);
  Type type = op_.typeOf(r.sources[0].x);
  type.dims[dim_] = Dim(length + after);
  Expr buffer = op_.value(b.constant(0, b.module.tensorType(type.dtype, type.dims)));
  // In line order: rows after a short part are overwritten by the next part.
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].read != read) continue;
    std::vector<ops::Arg> starts(type.rank(), op_.b.literal(0, op_.dtypeOf(deviceIndex())));
    starts[dim_] = startOf(parts_[p]);
    buffer = dynamic_update_slice(buffer, values[p], starts);
  }
  if (after == 0) return buffer;
  type.dims[dim_] = Dim(length);
  const std::vector<int64_t> start(type.rank());
  return slice(buffer, {.start = start, .limit = type.dims});
}

// Whether rows that some device reads before the first or after the last source can differ from the fill
// value. Rows that were not received, or are past the end of a shard, are 0.
bool WindowFetch::needsMask(size_t read) const {
  const WindowRead& r = reads_[read];
  if (!r.fill.valid()) return false;
  const Value& fill = op_.b.module[r.fill];
  const bool zero = fill.kind == ValueKind::Literal && [&] {
    const Attr& a = op_.b.module.attrs[fill.literal];
    return a.kind == Attr::Float ? a.f == 0 : a.i == 0;
  }();
  const WindowSource& last = r.sources.back();
  const int64_t begin = r.sources[0].base, end = last.base + last.length;
  for (int64_t i = 0; i < factor_.devices; ++i) {
    const int64_t lo = hostFirst(r, i), hi = hostEnd(r, i);
    if (lo == hi || (lo >= begin && hi <= end)) continue;
    if (!zero) return true;
    // Its own rows, without communication.
    for (const Part& p : parts_)
      if (p.read == read && !p.sent() &&
          std::find(p.pairs.begin(), p.pairs.end(), std::pair(i, i)) == p.pairs.end())
        return true;
  }
  return false;
}

Expr WindowFetch::masked(size_t read, Expr buffer) {
  if (!needsMask(read)) return buffer;
  const WindowRead& r = reads_[read];
  const Expr lo = firstRow(read);
  std::vector<Dim> shape(buffer.rank(), Dim(1));
  shape[dim_] = buffer.dims()[dim_];
  const Expr row = ops::iota(op_.b, op_.b.module.tensorType(lo.dtype(), shape), {.dim = dim_}) + lo;
  const WindowSource& last = r.sources.back();
  const Expr begun = row >= r.sources[0].base;
  return select(begun & (row < last.base + last.length), buffer, r.fill);
}

bool WindowFetch::run(std::vector<Expr>& buffers) {
  if (!fits()) return false;
  plan();
  ReceivedRows record;
  const std::vector<ValueId> known = receivedBefore(record);
  std::vector<ValueId> values;
  size_t next = 0;
  for (const Part& p : parts_) values.push_back(!known.empty() && p.sent() ? known[next++] : take(p));
  if (known.empty()) exchange(values);
  for (size_t p = 0; p < parts_.size(); ++p)
    if (parts_[p].sent()) record.values.push_back(values[p]);
  repeatRows(values);
  for (size_t r = 0; r < reads_.size(); ++r) buffers.push_back(masked(r, assemble(r, values)));
  record.buffer = buffers[0];
  if (op_.received && !record.asked.empty()) op_.received->push_back(std::move(record));
  return true;
}

// --- rows that an earlier op of the block has already received ---

namespace {

bool isTranspose(const Module& m, OpId o) { return m.record(o).name == std::string_view("transpose"); }
bool isReshape(const Module& m, OpId o) { return m.record(o).name == std::string_view("reshape"); }

// The number of trailing dims that a reshape preserves.
size_t keptDims(const Module& m, OpId reshape) {
  const std::vector<Dim>&from = m.typeOf(m.operand(reshape, 0)).dims, &to = m.typeOf(m.result(reshape)).dims;
  const auto [a, b] = std::mismatch(from.rbegin(), from.rend(), to.rbegin(), to.rend());
  return static_cast<size_t>(a - from.rbegin());
}

// The dim of `o`'s operand that corresponds to its dim `dim`, complete and in order, if the op only moves
// other dims.
std::optional<size_t> dimBefore(const Module& m, OpId o, size_t dim) {
  if (!o.valid()) return std::nullopt;
  if (isTranspose(m, o)) {
    const Attr& perm = m.attrs[m.attr(o, "perm")];
    const int64_t from = m.attrs[perm.list[dim]].i, rank = static_cast<int64_t>(perm.list.size());
    return static_cast<size_t>(from < 0 ? from + rank : from);
  }
  if (!isReshape(m, o)) return std::nullopt;
  const size_t innerDims = m.typeOf(m.result(o)).rank() - dim;
  if (innerDims > keptDims(m, o)) return std::nullopt;
  return m.typeOf(m.operand(o, 0)).rank() - innerDims;
}

// The same data-movement op, on some rows only.
Expr movedAlike(OpId move, Expr rows) {
  Module& m = rows.builder().module;
  if (isTranspose(m, move)) return transpose(rows, m.attr(move, "perm"));
  std::vector<Dim> shape = m.typeOf(m.result(move)).dims;
  const auto kept = static_cast<ptrdiff_t>(keptDims(m, move));
  const std::vector<Dim>& own = rows.dims();
  std::copy(own.end() - kept, own.end(), shape.end() - kept);
  return reshape(rows, shape);
}

} // namespace

std::vector<int64_t> WindowFetch::asked(size_t dim) const {
  const Module& m = op_.b.module;
  const WindowRead& r = reads_[0];
  const WindowSource& s = r.sources[0];
  if (reads_.size() != 1 || r.sources.size() != 1 || (r.fill.valid() && m[r.fill].kind != ValueKind::Literal))
    return {};
  const auto axes = static_cast<int64_t>(axesAttr(op_.b.module, factor_.axes).index);
  const int64_t fill = r.fill.valid() ? static_cast<int64_t>(m[r.fill].literal.index) : -1;
  return {static_cast<int64_t>(dim),
          axes,
          fill,
          r.result,
          r.scale,
          r.first,
          r.last,
          r.divide,
          s.size,
          s.base,
          s.length,
          s.step,
          s.offset,
          static_cast<int64_t>(s.order)};
}

std::vector<ValueId> WindowFetch::receivedBefore(ReceivedRows& record) {
  const Module& m = op_.b.module;
  record.of = reads_[0].sources[0].x;
  record.asked = asked(dim_);
  if (!op_.received || record.asked.empty()) return {};
  std::vector<OpId> moves;
  ValueId v = record.of;
  for (size_t dim = dim_;;) {
    const std::vector<int64_t> wanted = asked(dim);
    for (const ReceivedRows& r : *op_.received) {
      if (r.of != v || r.asked != wanted) continue;
      std::vector<ValueId> values = r.values;
      for (ValueId& rows : values)
        for (size_t i = moves.size(); i-- > 0;) rows = movedAlike(moves[i], op_.value(rows));
      record.like = r.buffer, record.moves = moves;
      return values;
    }
    // A buffer that was assembled equals the buffer that it is like, transformed.
    const auto anew = std::ranges::find_if(
        *op_.received, [&](const ReceivedRows& r) { return r.buffer == v && r.like.valid(); });
    const std::vector<OpId> steps =
        anew != op_.received->end() ? anew->moves : std::vector<OpId>{m.definingOp(v)};
    for (const OpId o : steps) {
      const auto before = dimBefore(m, o, dim);
      if (!before) return {};
      dim = *before;
      moves.push_back(o);
    }
    v = anew != op_.received->end() ? anew->like : m.operand(steps[0], 0);
  }
}

} // namespace dtc
