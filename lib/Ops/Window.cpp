#include "ShapeParts.h"
#include "WindowMath.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/RuleText.h"
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

namespace dtc {

namespace {

constexpr HostMath kHost;

} // namespace

int64_t largestPiece(int64_t size, const CutFactor& cut) {
  return size / cut.devices + (size % cut.devices != 0);
}

ValueId trimmed(CutOp& op, ValueId v, size_t dim, int64_t size, const CutFactor& cut) {
  if (size % cut.devices == 0) return v;
  Builder& b = op.b;
  return b.value("trim_piece", {v},
                 {{"dim", b.integer(static_cast<int64_t>(dim))},
                  {"size", sizeAttr(b.module, Dim(size))},
                  {"axes", axesAttr(b.module, cut.axes)}});
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

ValueId integer(CutOp& op, int64_t v, DType type) {
  return op.b.module.makeLiteral(op.b.module.attrs.integer(v), type, op.b.loc);
}

uint16_t addWindow(Rule& rule, Dim size, std::string name, FactorKind kind) {
  return addFactor(rule, size, std::move(name), kind);
}

DimMap windowDim(DimMap own, uint16_t cutAs) {
  own.cutAs = {{cutAs, 1}};
  return own;
}

bool WindowFetch::Part::sent() const {
  return std::any_of(pairs.begin(), pairs.end(), [](auto& p) { return p.first != p.second; });
}

int64_t WindowFetch::hostFirst(const WindowRead& r, int64_t device) const {
  return firstRowOf(kHost, r, cut_.devices, device);
}

int64_t WindowFetch::hostEnd(const WindowRead& r, int64_t device) const {
  const int64_t begin = pieceBegin(kHost, r.result, cut_.devices, device),
                end = pieceBegin(kHost, r.result, cut_.devices, device + 1);
  if (begin == end) return hostFirst(r, device);
  return std::max(floorDivide(r.scale * (end - 1) + r.last, r.divide) + 1, hostFirst(r, device));
}

int64_t WindowFetch::rows(size_t read) const {
  int64_t most = 1;
  for (int64_t i = 0; i < cut_.devices; ++i)
    most = std::max(most, hostEnd(reads_[read], i) - hostFirst(reads_[read], i));
  return most;
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

// Where the parts tile the buffer once those that are taken and written alike are one (what a roll takes from the next device,
// and the last from the first), they are.
void WindowFetch::mergeEqual(size_t read, std::vector<Part>& parts) const {
  std::vector<Part> merged;
  std::unordered_map<int64_t, std::vector<size_t>> written; // of those merged, by where they are written
  for (const Part& p : parts) {
    std::vector<size_t>& beside = written[p.at];
    const auto same = std::ranges::find_if(beside, [&](size_t q) { return mayBeOne(p, merged[q]); });
    if (same == beside.end()) {
      beside.push_back(merged.size());
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
  return s.order == SourceOrder::Mirrored ? cut_.devices - 1 - device : device;
}

void WindowFetch::planSource(size_t read, size_t source) {
  const WindowRead& r = reads_[read];
  const WindowSource& s = r.sources[source];
  const int64_t n = cut_.devices;
  using Key = std::pair<int64_t, int64_t>;
  std::map<Key, std::vector<Part>> byDistance, byOrder; // of one pair each
  std::vector<int64_t> begins;
  for (int64_t j = 0; j <= n; ++j) begins.push_back(sourceBegin(kHost, s, n, j));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t lo = hostFirst(r, i), hi = hostEnd(r, i);
    // The first piece that ends behind lo.
    auto from = std::upper_bound(begins.begin() + 1, begins.end(), lo) - (begins.begin() + 1);
    for (int64_t j = from; j < n && begins[static_cast<size_t>(j)] < hi; ++j) {
      const int64_t length =
          std::min(hi, begins[static_cast<size_t>(j) + 1]) - std::max(lo, begins[static_cast<size_t>(j)]);
      if (length <= 0) continue;
      Part one{.read = read, .source = source, .key = j - i, .count = length};
      one.pairs = {{senderNumber(s, j), i}};
      one.start = takenFrom(kHost, r, s, n, i, j);
      one.at = placedAt(kHost, r, s, n, i, j);
      byDistance[{one.key, 0}].push_back(one);
      if (s.order != SourceOrder::Forward) continue;
      one.ordered = true;
      one.key = j - firstSource(kHost, r, s, n, i);
      one.target = i - firstTarget(kHost, r, s, n, j);
      byOrder[{one.key, one.target}].push_back(one);
    }
  }
  // Windows over a halo come from the same few distances on every mesh; what spreads or shrinks (a slice of one half) does not.
  const bool orders = !byOrder.empty() && byOrder.size() < byDistance.size();
  for (auto& [key, pairs] : orders ? byOrder : byDistance) addLevels(pairs);
}

// At which numbers of rows the pairs of one rule end. Each makes one operand; where they are very many, those go that cost the
// fewest rows too many.
std::vector<int64_t> WindowFetch::levelsOf(std::span<const Part> pairs) {
  constexpr size_t kMostLevels = 8;
  std::map<int64_t, int64_t> endings;
  for (const Part& p : pairs) ++endings[p.count];
  while (endings.size() > kMostLevels) {
    auto least = endings.end();
    int64_t cost = 0;
    for (auto i = endings.begin(); std::next(i) != endings.end(); ++i)
      if (const int64_t own = i->second * (std::next(i)->first - i->first);
          least == endings.end() || own < cost)
        least = i, cost = own;
    std::next(least)->second += least->second;
    endings.erase(least);
  }
  std::vector<int64_t> levels;
  for (auto [rows, count] : endings) levels.push_back(rows);
  return levels;
}

// Every pair sends as many rows as it has: those that all have first, then those that only some have.
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

// --- the senders' side ---

bool WindowFetch::wide() const {
  int64_t most = 0;
  for (const WindowRead& r : reads_) {
    most = std::max({most, std::abs(r.scale) * r.result + std::abs(r.first) + std::abs(r.last), r.result});
    for (const WindowSource& s : r.sources)
      most =
          std::max({most, s.size, (s.step + r.divide) * (s.length + std::abs(s.base)) + std::abs(s.offset)});
  }
  return most >= (int64_t(1) << 30) / (4 * cut_.devices);
}

ValueId WindowFetch::deviceIndex() {
  if (!index_.valid()) index_ = op_.convert(op_.index(cut_.axes), wide() ? DType::I64 : DType::I32);
  return index_;
}

ValueId WindowFetch::firstRow(size_t read) {
  const ValueId i = deviceIndex();
  return firstRowOf(DeviceMath{op_, op_.dtypeOf(i)}, reads_[read], cut_.devices, i);
}

ValueId WindowFetch::firstResult(size_t read) {
  const ValueId i = deviceIndex();
  return pieceBegin(DeviceMath{op_, op_.dtypeOf(i)}, reads_[read].result, cut_.devices, i);
}

// The piece as long on every device, with room behind it so that no slice of it is moved back to fit; turned round where it is
// sent so.
ValueId WindowFetch::prepare(const Part& part) {
  Builder& b = op_.b;
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
              : takenFrom(kHost, reads_[p.read], s, cut_.devices, i, senderNumber(s, j)) + p.skip * s.step;
      room = std::max(room, start + rowsTaken(p) - largestPiece(s.size, cut_));
    }
  }
  ValueId x = source.x;
  if (!b.module.dims.expr(op_.typeOf(x).dims[dim_]).cut.empty())
    x = b.value("fill_piece", {x}, {{"dim", b.integer(static_cast<int64_t>(dim_))}});
  if (mirrored) x = b.value("flip", {x}, {{"dims", b.ints(std::array{static_cast<int64_t>(dim_)})}});
  if (room > 0) {
    std::vector<int64_t> low(op_.typeOf(x).rank()), high = low;
    high[dim_] = room;
    x = b.value("pad", {x}, {{"low", b.ints(low)}, {"high", b.ints(high)}});
  }
  prepared_.push_back({source.x, x, mirrored});
  return x;
}

// From the first row of x that goes to the last.
int64_t WindowFetch::rowsTaken(const Part& p) const {
  const WindowSource& s = sourceOf(p);
  return s.order == SourceOrder::Repeated ? 1 : (p.count - 1) * s.step + 1;
}

// What this device gives to the part's target.
ValueId WindowFetch::take(const Part& p) {
  Builder& b = op_.b;
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  ValueId x = prepare(p);
  const int64_t taken = rowsTaken(p);
  std::vector<Dim> sizes = op_.typeOf(x).dims;
  std::vector<int64_t> start(sizes.size()), stride(sizes.size(), 1);
  stride[dim_] = s.step;
  const bool whole = p.sameStart && p.start == 0 && sizes[dim_] == Dim(taken) && s.step == 1;
  if (whole) return x;
  if (p.sameStart) {
    start[dim_] = p.start;
    sizes[dim_] = Dim(p.start + taken);
  } else {
    const ValueId index = deviceIndex();
    const DeviceMath m{op_, op_.dtypeOf(index)};
    const ValueId j = s.order == SourceOrder::Mirrored ? m.from(cut_.devices - 1, index) : index;
    const ValueId i = p.ordered ? m.add(firstTarget(m, r, s, cut_.devices, j), p.target) : m.add(j, -p.key);
    std::vector<ValueId> operands = {x};
    for (size_t d = 0; d < sizes.size(); ++d)
      operands.push_back(d == dim_ ? m.add(takenFrom(m, r, s, cut_.devices, i, j), p.skip * s.step)
                                   : m.number(0));
    sizes[dim_] = Dim(taken);
    x = b.module.result(b.op("dynamic_slice", operands, {{"sizes", sizesAttr(b.module, sizes)}}));
    if (s.step == 1) return x;
  }
  return b.value(
      "slice", {x},
      {{"start", b.ints(start)}, {"limit", sizesAttr(b.module, sizes)}, {"stride", b.ints(stride)}});
}

// Of what each device takes, what it gets from others instead of its own.
void WindowFetch::exchange(std::vector<ValueId>& values) {
  Builder& b = op_.b;
  std::vector<ValueId> operands;
  std::vector<size_t> sent;
  Attr sends;
  sends.kind = Attr::List;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].sent()) continue;
    for (auto [from, to] : parts_[p].pairs)
      sends.list.push_back(b.ints(std::array{static_cast<int64_t>(operands.size()), from, to}));
    operands.push_back(values[p]);
    sent.push_back(p);
  }
  if (operands.empty()) return;
  const AttrId list = b.module.attrs.intern(std::move(sends));
  const OpId p2p = b.op("p2p", operands, {{"sends", list}, {"axes", axesAttr(b.module, cut_.axes)}});
  for (size_t i = 0; i < sent.size(); ++i) values[sent[i]] = b.module.result(p2p, i);
}

// A row that stands in many places of the line travels once.
void WindowFetch::repeatRows(std::vector<ValueId>& values) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (sourceOf(parts_[p]).order != SourceOrder::Repeated || parts_[p].count == 1) continue;
    std::vector<Dim> shape = op_.typeOf(values[p]).dims;
    shape[dim_] = Dim(parts_[p].count);
    values[p] = op_.b.value("broadcast", {values[p]}, {{"shape", sizesToAttr(op_.b.module, shape)}});
  }
}

// --- the receivers' side ---

// Do the parts lie one behind the other, each at the same place on every device that gets it, and fill the buffer? Where a device
// gets less there are no rows then.
bool WindowFetch::tiles(std::span<const Part> parts, int64_t rows) {
  int64_t at = 0;
  for (const Part& p : parts) {
    if (!p.sameAt || !p.sameLength || !p.sameStart || p.at != at) return false;
    at += p.count;
  }
  return at == rows;
}

int64_t WindowFetch::hostPlace(const Part& p, int64_t i) const {
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  const bool mine = std::any_of(p.pairs.begin(), p.pairs.end(), [&](auto& pair) { return pair.second == i; });
  if (p.ordered && !mine) return rows(p.read);
  const int64_t j = p.ordered ? firstSource(kHost, r, s, cut_.devices, i) + p.key : i + p.key;
  return placedAt(kHost, r, s, cut_.devices, i, j) + p.skip;
}

// How far behind the buffer some device writes it.
int64_t WindowFetch::rowsBehind(const Part& p) const {
  const int64_t end = rows(p.read);
  int64_t most = 0;
  for (int64_t i = 0; i < cut_.devices; ++i)
    most = std::max(most, std::min(hostPlace(p, i), end) + p.count - end);
  return most;
}

// Where this device writes the part.
ValueId WindowFetch::placeOf(const Part& p) {
  const WindowRead& r = reads_[p.read];
  const WindowSource& s = sourceOf(p);
  const ValueId i = deviceIndex();
  const DeviceMath m{op_, op_.dtypeOf(i)};
  if (p.ordered) {
    const ValueId j = m.add(firstSource(m, r, s, cut_.devices, i), p.key);
    // Another device of the same order may have sent this one's part: then this is written behind the buffer.
    const ValueId number = m.sub(i, firstTarget(m, r, s, cut_.devices, j));
    return op_.b.value("select",
                       {m.with("eq", number, p.target),
                        m.add(placedAt(m, r, s, cut_.devices, i, j, true), p.skip), m.number(rows(p.read))});
  }
  const int64_t first = hostPlace(p, 0);
  bool same = true;
  for (int64_t d = 1; d < cut_.devices; ++d) same = same && hostPlace(p, d) == first;
  if (same) return m.number(first);
  return m.add(placedAt(m, r, s, cut_.devices, i, m.add(i, p.key), p.key == 0), p.skip);
}

ValueId WindowFetch::assemble(size_t read, const std::vector<ValueId>& values) {
  Builder& b = op_.b;
  const WindowRead& r = reads_[read];
  std::vector<ValueId> own;
  std::vector<Part> parts;
  int64_t behind = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].read != read) continue;
    own.push_back(values[p]);
    parts.push_back(parts_[p]);
    behind = std::max(behind, rowsBehind(parts_[p]));
  }
  if (tiles(parts, rows(read)))
    return own.size() == 1
               ? own[0]
               : b.module.result(b.op("concat", own, {{"dim", b.integer(static_cast<int64_t>(dim_))}}));
  const int64_t length = rows(read);
  Type type = op_.typeOf(r.sources[0].x);
  type.dims[dim_] = Dim(length + behind);
  ValueId buffer = b.constant(0, b.module.tensorType(type.dtype, type.dims));
  // In the order of the line: what follows the rows of a short part is written over by the next.
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].read != read) continue;
    std::vector<ValueId> operands = {buffer, values[p]};
    for (size_t d = 0; d < type.rank(); ++d)
      operands.push_back(d == dim_ ? placeOf(parts_[p]) : op_.b.literal(0, op_.dtypeOf(deviceIndex())));
    buffer = b.module.result(b.op("dynamic_update_slice", operands));
  }
  if (behind == 0) return buffer;
  type.dims[dim_] = Dim(length);
  const std::vector<int64_t> start(type.rank());
  return b.value("slice", {buffer}, {{"start", b.ints(start)}, {"limit", sizesAttr(b.module, type.dims)}});
}

// May a row that some device wants, before the first or behind the last source, hold anything but the filling? What is received
// where nothing was sent, and what follows a piece's end, is 0.
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
  for (int64_t i = 0; i < cut_.devices; ++i) {
    const int64_t lo = hostFirst(r, i), hi = hostEnd(r, i);
    if (lo == hi || (lo >= begin && hi <= end)) continue;
    if (!zero) return true;
    // Its own rows, taken for nobody.
    for (const Part& p : parts_)
      if (p.read == read && !p.sent() &&
          std::find(p.pairs.begin(), p.pairs.end(), std::pair(i, i)) == p.pairs.end())
        return true;
  }
  return false;
}

ValueId WindowFetch::masked(size_t read, ValueId buffer) {
  if (!needsMask(read)) return buffer;
  Builder& b = op_.b;
  const WindowRead& r = reads_[read];
  const ValueId lo = firstRow(read);
  const DeviceMath m{op_, op_.dtypeOf(lo)};
  std::vector<Dim> shape(op_.typeOf(buffer).rank(), Dim(1));
  shape[dim_] = op_.typeOf(buffer).dims[dim_];
  const TypeId type[] = {b.module.tensorType(m.type, shape)};
  const ValueId own =
      b.module.result(b.op("iota", {}, {{"dim", b.integer(static_cast<int64_t>(dim_))}}, type));
  const ValueId row = b.value("add", {own, lo});
  const WindowSource& last = r.sources.back();
  const ValueId inside =
      b.value("and", {m.with("ge", row, r.sources[0].base), m.with("lt", row, last.base + last.length)});
  return b.value("select", {inside, buffer, r.fill});
}

bool WindowFetch::run(std::vector<ValueId>& buffers) {
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

} // namespace dtc
