#include "AttentionRing.h"
#include "RecordParts.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include <algorithm>
#include <cstdio>

namespace dtc {

namespace {

constexpr int64_t kSequence = 2;        // the dim of queries and keys
constexpr size_t kUnrolled = 8;         // as many steps are written out; more are a loop
constexpr int64_t kMostPairs = 1 << 22; // of devices, that are looked at one by one

// Of pieces of n over k, the first element of piece i.
int64_t pieceBegin(int64_t n, int64_t k, int64_t i) { return n / k * i + n % k * i / k; }

} // namespace

ValueId RingWriter::filled(ValueId v) {
  for (size_t d = 0; d < m.typeOf(v).rank(); ++d)
    if (isCut(m.typeOf(v).dims[d])) v = along("fill_piece", v, static_cast<int64_t>(d));
  return v;
}

ValueId RingWriter::trimmed(ValueId v, const Type& like, int64_t kept) {
  for (size_t d = 0; d < like.rank(); ++d) {
    if (static_cast<int64_t>(d) == kept || !isCut(like.dims[d]) || isCut(m.typeOf(v).dims[d])) continue;
    const std::vector<AxisRef> cut = m.dims.dynamic(like.dims[d]).cut;
    v = b.value("trim_piece", {v},
                {{"dim", b.integer(static_cast<int64_t>(d))},
                 {"size", sizeAttr(m, m.dims.uncut(like.dims[d]))},
                 {"axes", axesAttr(m, cut)}});
  }
  return v;
}

std::vector<ValueId> RingWriter::sent(std::span<const ValueId> values, std::span<const AxisRef> axes,
                                      Attr sends) {
  const OpId sent =
      b.op("p2p", values, {{"sends", m.attrs.intern(std::move(sends))}, {"axes", axesAttr(m, axes)}});
  std::vector<ValueId> out;
  for (size_t i = 0; i < values.size(); ++i) out.push_back(m.result(sent, i));
  return out;
}

std::vector<ValueId> RingWriter::shifted(std::span<const ValueId> values, std::span<const AxisRef> axes,
                                         int64_t distance) {
  const int64_t n = op.mesh().sizeOf(axes);
  Attr sends;
  sends.kind = Attr::List;
  for (int64_t v = 0; v < static_cast<int64_t>(values.size()); ++v)
    for (int64_t i = 0; i < n; ++i) sends.list.push_back(b.ints(std::array{v, i, (i + distance) % n}));
  return sent(values, axes, std::move(sends));
}

KeyRing::KeyRing(CutOp& op, std::span<const ValueId> pieces)
    : op_(op), w_(op), pieces_(pieces.begin(), pieces.end()) {
  const CutFactor& cut = op.operandCut(1, kSequence);
  const Dim s = op.whole.type(0).dims[kSequence], t = op.whole.type(1).dims[kSequence];
  devices = cut.devices;
  axes = cut.axes;
  queries = s.isStatic() ? s.value() : -1;
  keys = t.isStatic() ? t.value() : -1;
  if (possible()) findSteps();
}

// The offsets of the pieces are computed in i32.
bool KeyRing::possible() const {
  return queries >= 0 && keys >= 0 && std::max(queries, keys) <= INT32_MAX / (2 * devices + 1);
}

bool KeyRing::seen(int64_t query, int64_t key) const {
  const int64_t q0 = pieceBegin(queries, devices, query), q1 = pieceBegin(queries, devices, query + 1) - 1;
  const int64_t k0 = pieceBegin(keys, devices, key), k1 = pieceBegin(keys, devices, key + 1) - 1;
  if (q1 < q0 || k1 < k0) return false;
  const int64_t window = op_.whole.intAttr("window");
  if (op_.whole.boolAttr("causal") && k0 > q1) return false;
  return window == 0 || (q0 - k1 < window && k0 - q1 < window);
}

void KeyRing::findSteps() {
  const bool all = !op_.whole.boolAttr("causal") && op_.whole.intAttr("window") == 0;
  const bool offset =
      op_.whole.operandTypes.size() > 3 && op_.whole.type(op_.whole.operandTypes.size() - 1).rank() == 0;
  for (int64_t step = 1; step < devices; ++step) {
    bool any = all || offset || devices * devices > kMostPairs;
    for (int64_t i = 0; i < devices && !any; ++i) any = seen(i, (i - step + devices) % devices);
    if (any) steps_.push_back(step);
  }
}

ValueId KeyRing::me() {
  if (!me_.valid()) me_ = op_.index(axes);
  return me_;
}

double KeyRing::exchangeSeconds(int64_t bytes) const {
  return priceOf(StepKind::Permute, axes, bytes, bytes, op_.mesh(), NominalMachine{}).seconds;
}

static std::string microseconds(double seconds) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
  return text.data();
}

RingForm KeyRing::choose(const Price& price) {
  const OpQuery& whole = op_.whole;
  const bool causal = whole.boolAttr("causal");
  const std::string_view said = whole.textAttr("ring");
  const bool can = price.canExchange && causal && whole.intAttr("window") == 0 && queries == keys &&
                   devices > 1 && keys >= 2 * devices && said != "ordered";
  auto bytes = [&](TypeId t) { return largestBytes(w_.m, t, op_.mesh()).value_or(0); };
  int64_t there = 0, back = 0, round = price.bytesBack;
  for (ValueId v : price.exchanged) there += bytes(w_.m[v].type);
  for (TypeId t : price.returned) back += bytes(t);
  for (ValueId v : pieces_) round += bytes(w_.m[v].type);
  const double message = exchangeSeconds(round), steps = static_cast<double>(steps_.size()),
               n = static_cast<double>(devices);
  const double block = price.flops * (static_cast<double>(queries) / n) * (static_cast<double>(keys) / n) /
                       NominalMachine{}.flopsPerSecond;
  // Causal, the last device does every block in full but its own; or each does half of all.
  const double ordered = steps * std::max(message, block) + (causal ? block / 2 : block);
  const double balanced =
      exchangeSeconds(there) + steps * std::max(message, block / 2) + block / 2 + exchangeSeconds(back);
  if (can && (said == "balanced" || balanced < ordered)) form_ = RingForm::Balanced;
  const bool isBalanced = form_ == RingForm::Balanced;
  op_.seconds = isBalanced ? balanced : ordered;
  op_.choice = isBalanced ? "a balanced ring" : "a ring in the devices' order";
  op_.choice += ": " + microseconds(op_.seconds) + " with the work";
  if (can)
    op_.choice += (isBalanced ? ", in the devices' order " : ", balanced ") +
                  microseconds(isBalanced ? ordered : balanced);
  return form_;
}

// --- steps ---

// The steps of a run that are one loop: from `first`, `count` of them.
struct KeyRing::Loop {
  Loop(KeyRing& ring, int64_t first, int64_t count, std::span<const ValueId> travel,
       std::span<const ValueId> sums, std::span<const ValueId> back)
      : ring(ring), m(ring.w_.m) {
    Builder& outer = ring.w_.b;
    std::vector<ValueId> starts = {outer.literal(static_cast<double>(first), DType::I32),
                                   outer.literal(static_cast<double>(first + count), DType::I32)};
    for (const auto& list : {travel, sums, back}) starts.insert(starts.end(), list.begin(), list.end());
    op = m.makeOp(m.registry->find("for"), starts, static_cast<uint32_t>(starts.size() - 2), outer.common, 1,
                  outer.loc);
    m[op].parent = outer.parent;
    block = m.region(op);
    m[block].parentFunc = m[outer.parent].parentFunc;
    step = m.makeBlockArg(block, m.tensorType(DType::I32, std::initializer_list<int64_t>{}));
    for (size_t i = 2; i < starts.size(); ++i) {
      arguments.push_back(m.makeBlockArg(block, m[starts[i]].type));
      m[m.result(op, i - 2)].type = m[starts[i]].type;
    }
  }
  // `body` gives what is carried on, in the order of the arguments.
  void finish(const std::function<std::vector<ValueId>(RingWriter&)>& body) {
    Builder b(m, block, ops, ring.w_.b.diags);
    b.loc = ring.w_.b.loc, b.mesh = ring.w_.b.mesh, b.common = ring.w_.b.common;
    CutOp inner(b, ring.op_.whole, ring.op_.rule, ring.op_.operands, ring.op_.results, ring.op_.factors);
    RingWriter w(inner);
    std::vector<ValueId> carried = body(w);
    m[block].ops = std::move(ops);
    m[block].yields = std::move(carried);
    ring.w_.b.out.push_back(op);
  }
  [[nodiscard]] std::vector<ValueId> results() const {
    std::vector<ValueId> out;
    for (uint32_t i = 0; i < m[op].numResults; ++i) out.push_back(m.result(op, i));
    return out;
  }
  KeyRing& ring;
  Module& m;
  OpId op;
  BlockId block;
  ValueId step;
  std::vector<ValueId> arguments;
  std::vector<OpId> ops;
};

// What comes in a step is sent on before it is worked on: the next block is on its way meanwhile. What goes home is sent on after.
void KeyRing::run(std::vector<ValueId> travel, std::vector<ValueId>& sums, std::span<const TypeId> backTypes,
                  std::vector<ValueId>& home, const Work& own, const Work& others) {
  std::vector<ValueId> back;
  if (!steps_.empty()) {
    me();
    for (TypeId t : backTypes) back.push_back(w_.b.constant(0, t));
  }
  auto work = [&](RingWriter& w, ValueId step, std::span<const ValueId> block, std::vector<ValueId>& all,
                  std::vector<ValueId>& goesHome) {
    const ValueId source = w.b.value("mod", {w.sub(me_, step), w.number(devices)});
    const ValueId before =
        form_ == RingForm::Balanced ? w.b.value("le", {step, me_}) : ValueId(); // source < me
    std::vector<ValueId> given;
    Step s{w, source, before, block, all, given};
    others(s);
    for (size_t i = 0; i < given.size(); ++i) goesHome[i] = w.add(goesHome[i], given[i]);
  };
  std::vector<ValueId> block = travel; // of the step at hand
  auto goOn = [&](int64_t from, int64_t to) {
    if (to > from) block = w_.shifted(block, axes, to - from);
  };
  goOn(0, steps_.empty() ? 0 : steps_[0]);
  Step first{w_, {}, {}, travel, sums, home};
  own(first);
  for (size_t i = 0; i < steps_.size();) {
    size_t run = 1; // steps one place apart
    while (i + run < steps_.size() && steps_[i + run] == steps_[i] + static_cast<int64_t>(run)) ++run;
    const bool looped = run > kUnrolled;
    if (looped) { // all but the last
      Loop loop(*this, steps_[i], static_cast<int64_t>(run) - 1, block, sums, back);
      const size_t nb = block.size(), ns = sums.size();
      loop.finish([&](RingWriter& w) {
        const std::vector<ValueId>& a = loop.arguments;
        const std::vector<ValueId> here(a.begin(), a.begin() + static_cast<ptrdiff_t>(nb));
        std::vector<ValueId> all(a.begin() + static_cast<ptrdiff_t>(nb),
                                 a.begin() + static_cast<ptrdiff_t>(nb + ns));
        std::vector<ValueId> goes(a.begin() + static_cast<ptrdiff_t>(nb + ns), a.end());
        std::vector<ValueId> carried = w.shifted(here, axes, 1);
        work(w, loop.step, here, all, goes);
        if (!goes.empty()) goes = w.shifted(goes, axes, 1);
        carried.insert(carried.end(), all.begin(), all.end());
        carried.insert(carried.end(), goes.begin(), goes.end());
        return carried;
      });
      const std::vector<ValueId> r = loop.results();
      block.assign(r.begin(), r.begin() + static_cast<ptrdiff_t>(nb));
      sums.assign(r.begin() + static_cast<ptrdiff_t>(nb), r.begin() + static_cast<ptrdiff_t>(nb + ns));
      back.assign(r.begin() + static_cast<ptrdiff_t>(nb + ns), r.end());
      i += run - 1;
    }
    const std::vector<ValueId> here = block;
    const int64_t next = i + 1 < steps_.size() ? steps_[i + 1] : devices; // devices: home
    if (next < devices) goOn(steps_[i], next);
    work(w_, w_.number(steps_[i]), here, sums, back);
    if (!back.empty()) back = w_.shifted(back, axes, next - steps_[i]);
    ++i;
  }
  for (size_t i = 0; i < back.size(); ++i) home.push_back(back[i]);
}

// --- blocks in their places ---

ValueId KeyRing::begin(RingWriter& w, ValueId device) {
  return w.b.value("floor_div", {w.mul(device, w.number(keys)), w.number(devices)});
}

ValueId KeyRing::keyLimit(RingWriter& w, ValueId source, Dim size) {
  if (keys % devices == 0) return {};
  const Dim dims[] = {size};
  TypeId type[] = {w.m.tensorType(DType::I32, dims)};
  const ValueId places = w.m.result(w.b.op("iota", {}, {}, type));
  const ValueId count = w.sub(begin(w, w.add(source, w.number(1))), begin(w, source));
  return w.b.value("lt", {places, count});
}

// --- balanced ---

ValueId KeyRing::chunkBegin(RingWriter& w, ValueId chunk) {
  return w.b.value("floor_div", {w.mul(chunk, w.number(keys)), w.number(2 * devices)});
}
ValueId KeyRing::chunkSize(RingWriter& w, ValueId chunk) {
  return w.sub(chunkBegin(w, w.add(chunk, w.number(1))), chunkBegin(w, chunk));
}

ValueId KeyRing::chunkLimit(RingWriter& w, ValueId source, bool late) {
  if (evenChunks()) return {};
  const Dim dims[] = {Dim(chunk())};
  TypeId type[] = {w.m.tensorType(DType::I32, dims)};
  const ValueId places = w.m.result(w.b.op("iota", {}, {}, type));
  const ValueId at = late ? w.sub(w.number(2 * devices - 1), source) : source;
  return w.b.value("lt", {places, chunkSize(w, at)});
}

// The two chunks of a piece, chunk() long; where they are shorter, what follows is 0.
std::array<ValueId, 2> KeyRing::halvesOf(ValueId piece, int64_t dim, ValueId first) {
  ValueId x = w_.filled(piece);
  const Type type = w_.m.typeOf(x);
  const size_t rank = type.rank(), d = static_cast<size_t>(dim);
  const ValueId zero = w_.b.literal(0, type.dtype);
  std::vector<int64_t> low(rank), high(rank);
  high[d] = 2 * chunk() - type.dims[d].value();
  if (high[d] > 0) x = w_.b.value("pad", {x, zero}, {{"low", w_.b.ints(low)}, {"high", w_.b.ints(high)}});
  auto from = [&](ValueId start) {
    std::vector<Dim> sizes = type.dims;
    sizes[d] = Dim(chunk());
    std::vector<ValueId> operands = {x};
    for (size_t k = 0; k < rank; ++k) operands.push_back(k == d ? start : w_.number(0));
    return w_.m.result(w_.b.op("dynamic_slice", operands, {{"sizes", sizesAttr(w_.m, sizes)}}));
  };
  if (!first.valid()) return {from(w_.number(0)), from(w_.number(chunk()))};
  std::vector<Dim> dims(rank, Dim(1)); // the next chunk begins within the first
  dims[d] = Dim(chunk());
  TypeId places[] = {w_.m.tensorType(DType::I32, dims)};
  const ValueId at = w_.m.result(w_.b.op("iota", {}, {{"dim", w_.b.integer(dim)}}, places));
  return {w_.select(w_.b.value("lt", {at, first}), from(w_.number(0)), zero), from(first)};
}

// A piece is chunks 2i and 2i+1. Chunk c goes to device ownerOf(c), which has one chunk of even number and one of odd.
std::vector<Chunks> KeyRing::toChunks(std::span<const ValueId> pieces, std::span<const int64_t> dims) {
  const ValueId i = me(), first = evenChunks() ? ValueId() : chunkSize(w_, w_.mul(i, w_.number(2)));
  std::vector<ValueId> halves;
  std::vector<Type> like;
  for (size_t p = 0; p < pieces.size(); ++p) {
    like.push_back(w_.m.typeOf(pieces[p]));
    for (ValueId half : halvesOf(pieces[p], dims[p], first)) halves.push_back(half);
  }
  Attr sends;
  sends.kind = Attr::List;
  for (int64_t v = 0; v < static_cast<int64_t>(halves.size()); ++v)
    for (int64_t k = 0; k < devices; ++k)
      sends.list.push_back(w_.b.ints(std::array{v, k, ownerOf(2 * k + v % 2)}));
  const std::vector<ValueId> got = w_.sent(halves, axes, std::move(sends));
  const ValueId even = w_.b.value("eq", {w_.b.value("mod", {i, w_.number(2)}), w_.number(0)});
  std::vector<Chunks> out;
  for (size_t p = 0; p < pieces.size(); ++p) {
    const ValueId x = w_.trimmed(got[2 * p], like[p], dims[p]),
                  y = w_.trimmed(got[2 * p + 1], like[p], dims[p]);
    out.push_back({w_.select(even, x, y), w_.select(even, y, x)});
  }
  return out;
}

std::vector<ValueId> KeyRing::toPieces(std::span<const Chunks> chunks, std::span<const int64_t> dims,
                                       std::span<const Type> types) {
  const ValueId i = me();
  const ValueId even = w_.b.value("eq", {w_.b.value("mod", {i, w_.number(2)}), w_.number(0)});
  std::vector<ValueId> halves;
  for (const Chunks& c : chunks) {
    const ValueId x = w_.filled(c.early), y = w_.filled(c.late);
    halves.push_back(w_.select(even, x, y));
    halves.push_back(w_.select(even, y, x));
  }
  Attr sends;
  sends.kind = Attr::List;
  for (int64_t v = 0; v < static_cast<int64_t>(halves.size()); ++v)
    for (int64_t k = 0; k < devices; ++k)
      sends.list.push_back(w_.b.ints(std::array{v, ownerOf(2 * k + v % 2), k}));
  const std::vector<ValueId> got = w_.sent(halves, axes, std::move(sends));
  std::vector<ValueId> out;
  for (size_t p = 0; p < chunks.size(); ++p) {
    const size_t d = static_cast<size_t>(dims[p]);
    ValueId x = got[2 * p];
    if (evenChunks()) {
      x = w_.b.value("concat", {x, got[2 * p + 1]}, {{"dim", w_.b.integer(dims[p])}});
    } else {
      const Type type = w_.m.typeOf(x);
      std::vector<int64_t> low(type.rank()), high(type.rank());
      high[d] = chunk();
      x = w_.b.value("pad", {x}, {{"low", w_.b.ints(low)}, {"high", w_.b.ints(high)}});
      std::vector<ValueId> operands = {x, got[2 * p + 1]};
      for (size_t k = 0; k < type.rank(); ++k)
        operands.push_back(k == d ? chunkSize(w_, w_.mul(i, w_.number(2))) : w_.number(0));
      x = w_.m.result(w_.b.op("dynamic_update_slice", operands));
      high[d] = (keys + devices - 1) / devices - 2 * chunk();
      if (high[d] < 0) {
        std::vector<Dim> sizes = w_.m.typeOf(x).dims;
        sizes[d] = Dim((keys + devices - 1) / devices);
        x = w_.b.value("slice", {x}, {{"start", w_.b.ints(low)}, {"limit", sizesAttr(w_.m, sizes)}});
      }
    }
    out.push_back(w_.trimmed(x, types[p]));
  }
  return out;
}

} // namespace dtc
