#include "attention/AttentionRing.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Sharding/Reshard.h"
#include "record/RecordParts.h"
#include <algorithm>
#include <cstdio>

namespace dtc {

constexpr int64_t kRingSequence = 2;   // the dim of queries and keys
constexpr size_t kUnrolled = 8;        // more steps become a loop
constexpr int64_t kMaxPairs = 1 << 22; // of devices, for which an exact check is affordable

// The first element of shard i of n over k.
static int64_t shardBegin(int64_t n, int64_t k, int64_t i) { return n / k * i + n % k * i / k; }

Expr RingWriter::filled(ValueId v) {
  Expr x = in(v);
  for (size_t d = 0; d < x.rank(); ++d)
    if (isSharded(x.dims()[d])) x = fill_piece(x, {.dim = d});
  return x;
}

Expr RingWriter::trimmed(ValueId v, const Type& like, int64_t kept) {
  Expr x = in(v);
  for (size_t d = 0; d < like.rank(); ++d) {
    if (static_cast<int64_t>(d) == kept || !isSharded(like.dims[d]) || isSharded(x.dims()[d])) continue;
    const std::vector<AxisRef> axes = m.dims.dynamic(like.dims[d]).axes;
    x = trim_piece(x, {.dim = d, .size = m.dims.unsharded(like.dims[d]), .axes = axes});
  }
  return x;
}

std::vector<ValueId> RingWriter::sent(std::span<const ValueId> values, std::span<const AxisRef> axes,
                                      std::vector<AttrId> sends) {
  const std::vector<Expr> sent = ops::p2p(b, values, {.axes = axes, .sends = m.attrs.list(std::move(sends))});
  return {sent.begin(), sent.end()};
}

std::vector<ValueId> RingWriter::shifted(std::span<const ValueId> values, std::span<const AxisRef> axes,
                                         int64_t distance) {
  const int64_t n = op.mesh().sizeOf(axes);
  std::vector<AttrId> sends;
  for (int64_t v = 0; v < static_cast<int64_t>(values.size()); ++v)
    for (int64_t i = 0; i < n; ++i) sends.push_back(b.ints(std::array{v, i, (i + distance) % n}));
  return sent(values, axes, std::move(sends));
}

KeyRing::KeyRing(ShardedOp& op, std::span<const ValueId> shards)
    : op_(op), w_(op), shards_(shards.begin(), shards.end()) {
  const ShardedFactor& factor = op.operandFactor(1, kRingSequence);
  const Dim s = op.global.type(0).dims[kRingSequence], t = op.global.type(1).dims[kRingSequence];
  devices = factor.devices;
  axes = factor.axes;
  queries = s.isStatic() ? s.value() : -1;
  keys = t.isStatic() ? t.value() : -1;
  if (possible()) findSteps();
}

// The offsets of the shards are computed in i32.
bool KeyRing::possible() const {
  return queries >= 0 && keys >= 0 && std::max(queries, keys) <= INT32_MAX / (2 * devices + 1);
}

bool KeyRing::seen(int64_t query, int64_t key) const {
  const int64_t q0 = shardBegin(queries, devices, query), q1 = shardBegin(queries, devices, query + 1) - 1;
  const int64_t k0 = shardBegin(keys, devices, key), k1 = shardBegin(keys, devices, key + 1) - 1;
  if (q1 < q0 || k1 < k0) return false;
  const int64_t window = op_.global.intAttr("window");
  if (op_.global.boolAttr("causal") && k0 > q1) return false;
  return window == 0 || (q0 - k1 < window && k0 - q1 < window);
}

void KeyRing::findSteps() {
  const bool all = !op_.global.boolAttr("causal") && op_.global.intAttr("window") == 0;
  const bool offset =
      op_.global.operandTypes.size() > 3 && op_.global.type(op_.global.operandTypes.size() - 1).rank() == 0;
  for (int64_t step = 1; step < devices; ++step) {
    bool any = all || offset || devices * devices > kMaxPairs;
    for (int64_t i = 0; i < devices && !any; ++i) any = seen(i, (i - step + devices) % devices);
    if (any) steps_.push_back(step);
  }
}

Expr KeyRing::me() {
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
  const OpQuery& global = op_.global;
  const bool causal = global.boolAttr("causal");
  const std::string_view said = global.textAttr("ring");
  const bool can = price.canExchange && causal && global.intAttr("window") == 0 && queries == keys &&
                   devices > 1 && keys >= 2 * devices && said != "ordered";
  auto bytes = [&](TypeId t) { return largestBytes(w_.m, t, op_.mesh()).value_or(0); };
  int64_t there = 0, back = 0, round = price.bytesBack;
  for (ValueId v : price.exchanged) there += bytes(w_.m[v].type);
  for (TypeId t : price.returned) back += bytes(t);
  for (ValueId v : shards_) round += bytes(w_.m[v].type);
  const double message = exchangeSeconds(round), steps = static_cast<double>(steps_.size()),
               n = static_cast<double>(devices);
  const double block = price.flops * (static_cast<double>(queries) / n) * (static_cast<double>(keys) / n) /
                       NominalMachine{}.flopsPerSecond;
  // Causal: the last device does every block except its own in full; or each device does half of all.
  const double ordered = steps * std::max(message, block) + (causal ? block / 2 : block);
  const double balanced =
      exchangeSeconds(there) + steps * std::max(message, block / 2) + block / 2 + exchangeSeconds(back);
  if (can && (said == "balanced" || balanced < ordered)) form_ = RingForm::Balanced;
  const bool isBalanced = form_ == RingForm::Balanced;
  op_.seconds = isBalanced ? balanced : ordered;
  op_.choice = isBalanced ? "a balanced ring" : "a ring in device order";
  op_.choice += ": " + microseconds(op_.seconds) + " including compute";
  if (can)
    op_.choice +=
        (isBalanced ? ", in device order " : ", balanced ") + microseconds(isBalanced ? ordered : balanced);
  return form_;
}

// --- steps ---

// A received block is forwarded before it is used, so that the transfer overlaps the computation. Gradients
// are sent on afterwards.
void KeyRing::run(std::vector<ValueId> travel, std::vector<ValueId>& sums, std::span<const TypeId> backTypes,
                  std::vector<ValueId>& home, const Work& own, const Work& others) {
  std::vector<ValueId> back;
  if (!steps_.empty()) {
    me();
    for (TypeId t : backTypes) back.push_back(w_.b.constant(0, t));
  }
  auto work = [&](RingWriter& w, Expr step, std::span<const ValueId> block, std::vector<ValueId>& all,
                  std::vector<ValueId>& goesHome) {
    const Expr source = mod(w.in(me_)-step, devices);
    // source < me
    const Expr before = form_ == RingForm::Balanced ? step <= me_ : Expr();
    std::vector<ValueId> given;
    Step s{w, source, before, block, all, given};
    others(s);
    for (size_t i = 0; i < given.size(); ++i) goesHome[i] = w.in(goesHome[i]) + given[i];
  };
  std::vector<ValueId> block = travel; // of the current step
  auto goOn = [&](int64_t from, int64_t to) {
    if (to > from) block = w_.shifted(block, axes, to - from);
  };
  goOn(0, steps_.empty() ? 0 : steps_[0]);
  Step first{w_, {}, {}, travel, sums, home};
  own(first);
  for (size_t i = 0; i < steps_.size();) {
    size_t run = 1; // consecutive steps
    while (i + run < steps_.size() && steps_[i + run] == steps_[i] + static_cast<int64_t>(run)) ++run;
    const bool looped = run > kUnrolled;
    if (looped) { // all but the last
      const size_t nb = block.size(), ns = sums.size();
      std::vector<ValueId> starts = block;
      starts.insert(starts.end(), sums.begin(), sums.end());
      starts.insert(starts.end(), back.begin(), back.end());
      const int64_t first = steps_[i], last = first + static_cast<int64_t>(run) - 1;
      auto three = [&](auto list) {
        return std::array{list.first(nb), list.subspan(nb, ns), list.subspan(nb + ns)};
      };
      const std::vector<Expr> made =
          ops::forLoop(w_.b, first, last, starts, [&](Builder& b, Expr step, auto list) {
            ShardedOp inner(b, op_.global, op_.rule, op_.operands, op_.results, op_.factors);
            RingWriter w(inner);
            const auto [here, sum, home] = three(list);
            std::vector<ValueId> all(sum.begin(), sum.end()), goes(home.begin(), home.end());
            std::vector<ValueId> carried = w.shifted(here, axes, 1);
            work(w, step, here, all, goes);
            if (!goes.empty()) goes = w.shifted(goes, axes, 1);
            carried.insert(carried.end(), all.begin(), all.end());
            carried.insert(carried.end(), goes.begin(), goes.end());
            return carried;
          });
      const auto [blocks, all, goes] = three(std::span(made));
      block.assign(blocks.begin(), blocks.end());
      sums.assign(all.begin(), all.end());
      back.assign(goes.begin(), goes.end());
      i += run - 1;
    }
    const std::vector<ValueId> here = block;
    const int64_t next = i + 1 < steps_.size() ? steps_[i + 1] : devices; // devices: the owner
    if (next < devices) goOn(steps_[i], next);
    work(w_, w_.number(steps_[i]), here, sums, back);
    if (!back.empty()) back = w_.shifted(back, axes, next - steps_[i]);
    ++i;
  }
  for (size_t i = 0; i < back.size(); ++i) home.push_back(back[i]);
}

// --- ordered ---

Expr KeyRing::begin(Expr device) { return floor_div(device * keys, devices); }

Expr KeyRing::keyLimit(RingWriter& w, Expr source, Dim size) {
  if (keys % devices == 0) return {};
  const Expr positions = ops::iota(w.b, w.m.tensorType(DType::I32, std::span(&size, 1)));
  const Expr end = begin(source + 1);
  return positions < end - begin(source);
}

// --- balanced ---

Expr KeyRing::chunkBegin(Expr chunk) { return floor_div(chunk * keys, 2 * devices); }
Expr KeyRing::chunkSize(Expr chunk) {
  const Expr end = chunkBegin(chunk + 1);
  return end - chunkBegin(chunk);
}

Expr KeyRing::chunkLimit(RingWriter& w, Expr source, bool late) {
  if (evenChunks()) return {};
  const Expr positions = ops::iota(w.b, w.m.tensorType(DType::I32, {chunk()}));
  const Expr at = late ? 2 * devices - 1 - source : source;
  return positions < chunkSize(at);
}

// The two chunks of a shard, each of chunk() elements, padded with 0.
std::array<Expr, 2> KeyRing::halvesOf(ValueId shard, int64_t dim, Expr first) {
  Expr x = w_.filled(shard);
  const Type type = x.type();
  const size_t rank = type.rank(), d = static_cast<size_t>(dim);
  std::vector<int64_t> low(rank), high(rank);
  high[d] = 2 * chunk() - type.dims[d].value();
  if (high[d] > 0) x = pad(x, {.value = 0, .low = low, .high = high});
  auto from = [&](ops::Arg start) {
    std::vector<Dim> sizes = type.dims;
    sizes[d] = Dim(chunk());
    std::vector<ops::Arg> starts(rank, 0);
    starts[d] = start;
    return dynamic_slice(x, starts, sizes);
  };
  if (!first.valid()) {
    const Expr early = from(0);
    return {early, from(chunk())};
  }
  std::vector<Dim> dims(rank, Dim(1)); // the next chunk begins inside the first
  dims[d] = Dim(chunk());
  const Expr at = ops::iota(w_.b, w_.m.tensorType(DType::I32, dims), {.dim = dim});
  const Expr inFirst = at < first;
  const Expr own = select(inFirst, from(0), 0);
  return {own, from(first)};
}

// A shard is chunks 2i and 2i+1. Chunk c goes to device ownerOf(c), which gets one even and one odd chunk.
std::vector<Chunks> KeyRing::toChunks(std::span<const ValueId> shards, std::span<const int64_t> dims) {
  const Expr i = me(), first = evenChunks() ? Expr() : chunkSize(i * 2);
  std::vector<ValueId> halves;
  std::vector<Type> like;
  for (size_t p = 0; p < shards.size(); ++p) {
    like.push_back(w_.m.typeOf(shards[p]));
    for (ValueId half : halvesOf(shards[p], dims[p], first)) halves.push_back(half);
  }
  std::vector<AttrId> sends;
  for (int64_t v = 0; v < static_cast<int64_t>(halves.size()); ++v)
    for (int64_t k = 0; k < devices; ++k)
      sends.push_back(w_.b.ints(std::array{v, k, ownerOf(2 * k + v % 2)}));
  const std::vector<ValueId> got = w_.sent(halves, axes, std::move(sends));
  const Expr even = eq(mod(i, 2), 0);
  std::vector<Chunks> out;
  for (size_t p = 0; p < shards.size(); ++p) {
    const Expr x = w_.trimmed(got[2 * p], like[p], dims[p]), y = w_.trimmed(got[2 * p + 1], like[p], dims[p]);
    out.push_back({select(even, x, y), select(even, y, x)});
  }
  return out;
}

std::vector<ValueId> KeyRing::toShards(std::span<const Chunks> chunks, std::span<const int64_t> dims,
                                       std::span<const Type> types) {
  const Expr i = me();
  const Expr even = eq(mod(i, 2), 0);
  std::vector<ValueId> halves;
  for (const Chunks& c : chunks) {
    const Expr x = w_.filled(c.early), y = w_.filled(c.late);
    halves.push_back(select(even, x, y));
    halves.push_back(select(even, y, x));
  }
  std::vector<AttrId> sends;
  for (int64_t v = 0; v < static_cast<int64_t>(halves.size()); ++v)
    for (int64_t k = 0; k < devices; ++k)
      sends.push_back(w_.b.ints(std::array{v, ownerOf(2 * k + v % 2), k}));
  const std::vector<ValueId> got = w_.sent(halves, axes, std::move(sends));
  std::vector<ValueId> out;
  for (size_t p = 0; p < chunks.size(); ++p) {
    const size_t d = static_cast<size_t>(dims[p]);
    Expr x = w_.in(got[2 * p]);
    if (evenChunks()) {
      x = ops::concat(w_.b, {x, got[2 * p + 1]}, dims[p]);
    } else {
      const size_t rank = x.rank();
      std::vector<int64_t> low(rank), high(rank);
      high[d] = chunk();
      x = pad(x, {.low = low, .high = high});
      std::vector<ops::Arg> starts(rank, 0);
      starts[d] = chunkSize(i * 2);
      x = dynamic_update_slice(x, got[2 * p + 1], starts);
      high[d] = (keys + devices - 1) / devices - 2 * chunk();
      if (high[d] < 0) {
        std::vector<Dim> sizes = x.dims();
        sizes[d] = Dim((keys + devices - 1) / devices);
        x = slice(x, {.start = low, .limit = sizes});
      }
    }
    out.push_back(w_.trimmed(x, types[p]));
  }
  return out;
}

} // namespace dtc
