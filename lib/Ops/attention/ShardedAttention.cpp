// attention with keys and values sharded along their sequence. Each device computes attention over its own
// keys and the log-sum-exp of each row; these are merged like softmax sums. If the queries are not sharded by
// the same axes, one exchange merges the parts. Otherwise the keys circulate in a ring (AttentionRing.h).
#include "attention/AttentionParts.h"
#include "attention/AttentionRing.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include <cmath>

namespace dtc {

namespace {

constexpr int64_t kSequence = 2; // the dim of q, k, v

// Running softmax state for each query over the keys so far: the log of the max weight, and relative to it
// the sum of weights and the weighted sum of values. [batch, heads, s, 1] and [batch, heads, s, e].
struct Weighed {
  ValueId rowMax, sum, values;
};

class ShardedAttention {
public:
  explicit ShardedAttention(ShardedOp& op) : op_(op), w_(op) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const OpQuery& global = op_.global;
    if (!global.type(0).dims[3].isStatic()) return false;
    if (hasAttentionMask(global)) mask_ = op_.operand(3);
    if (hasAttentionOffset(global)) offset_ = op_.value(op_.operands.back());
    const ShardedFactor &queries = op_.operandFactor(0, kSequence), &keys = op_.operandFactor(1, kSequence);
    if (queries.isSharded() && queries.axes == keys.axes) return goRound(results);
    positional_ = global.boolAttr("causal") || global.intAttr("window") != 0;
    Expr distance;
    if (positional_) distance = queryOffset() - op_.shardOffset(global.type(1).dims[kSequence], keys.axes);
    finish(merged(weigh(w_, op_.operand(0), op_.operand(1), op_.operand(2), mask_, distance)), results);
    return true;
  }

private:
  // exp(-inf - -inf) is NaN: without keys the shift is 0.
  static Expr shiftOf(Expr rowMax) { return select(eq(rowMax, -INFINITY), 0, rowMax); }

  // The offset of this device's queries.
  Expr queryOffset() {
    Expr at = offset_;
    if (const ShardedFactor& s = op_.operandFactor(0, kSequence); s.isSharded()) {
      const Expr own = op_.shardOffset(op_.global.type(0).dims[kSequence], s.axes);
      at = at.valid() ? own + at : own;
    }
    return at.valid() ? at : w_.number(0);
  }

  // For one block of keys. `distance`: the position of the first query relative to the block's first key;
  // invalid: all keys are visible.
  Weighed weigh(RingWriter& w, ValueId query, ValueId key, ValueId value, ValueId mask, ValueId distance) {
    const bool narrow = dtypeBytes(op_.dtypeOf(query)) == 1; // rounded once, not for each block
    auto taken = [&](ValueId x) { return narrow ? w.op.wide(x) : w.in(x); };
    const Expr q = taken(query), k = taken(key), v = taken(value);
    if (mask.valid() && isFloat(op_.dtypeOf(mask))) mask = taken(mask);
    const OpQuery& global = op_.global;
    const auto made = attention(q, k, v,
                                {.mask = mask,
                                 .offset = distance,
                                 .causal = distance.valid() && global.boolAttr("causal"),
                                 .scale = global.rawAttr("scale"),
                                 .window = distance.valid() ? global.intAttr("window") : 0,
                                 .lse = true});
    const Expr y = w.op.wide(made[0]), lse = expand_dims(made[1], {3});
    const Expr none = eq(lse, -INFINITY); // 0 / 0 without keys
    const Expr sum = select(none, 0, w.b.constant(1, lse.typeId()));
    return {lse, sum, select(none, 0, y)};
  }

  Weighed both(RingWriter& w, const Weighed& x, const Weighed& y) {
    const Expr rowMax = max(w.in(x.rowMax), y.rowMax), shift = shiftOf(rowMax);
    const Expr u = exp(x.rowMax - shift), v = exp(y.rowMax - shift);
    const Expr ofX = x.sum * u, sum = ofX + y.sum * v;
    const Expr values = x.values * u;
    return {rowMax, sum, values + y.values * v};
  }

  void finish(const Weighed& all, std::vector<ValueId>& results) {
    results.push_back(op_.convert(w_.in(all.values) / all.sum, op_.dtypeOf(op_.operands[0])));
    if (op_.global.boolAttr("lse")) results.push_back(logSum(all));
  }
  Expr logSum(const Weighed& all) {
    const Expr lse = log(w_.in(all.sum));
    return squeeze(lse + shiftOf(w_.in(all.rowMax)), {3});
  }

  // --- all devices at once ---

  // Values and sums in one tensor; they stay separate if the values' own dim is sharded.
  Weighed merged(const Weighed& own) {
    const Dim columns = op_.typeOf(own.values).dims.back();
    if (!columns.isStatic()) {
      const Weighed scaled = scaledToAll(own);
      return {scaled.rowMax, op_.allReduce(scaled.sum, PendingKind::Sum),
              op_.allReduce(scaled.values, PendingKind::Sum)};
    }
    if (!gatheredIsCheaper(own)) {
      const Weighed scaled = scaledToAll(own);
      const auto parts =
          apart(op_.allReduce(together(scaled.values, scaled.sum), PendingKind::Sum), columns.value());
      return {scaled.rowMax, parts[1], parts[0]};
    }
    const auto all = apart(op_.gatherAll(together(own.values, own.rowMax)), columns.value());
    const Expr rowMax = max(all[1], {.dims = {0}, .keepdim = true}), shift = shiftOf(rowMax);
    const Expr weight = exp(all[1] - shift);
    const Expr maximum = max(all[1], {.dims = {0}}), total = sum(weight, {.dims = {0}});
    return {maximum, total, sum(all[0] * weight, {.dims = {0}})};
  }
  // The max over all devices.
  Weighed scaledToAll(const Weighed& own) {
    const Expr rowMax = op_.allReduce(own.rowMax, PendingKind::Max);
    const Expr weight = exp(own.rowMax - shiftOf(rowMax));
    return {rowMax, own.sum * weight, own.values * weight};
  }
  Expr together(ValueId values, ValueId column) { return ops::concat(w_.b, {values, column}, -1); }
  std::vector<Expr> apart(Expr v, int64_t columns) { return split(v, {.sizes = {columns, 1}, .dim = -1}); }
  // One gather, instead of a max and a sum.
  bool gatheredIsCheaper(const Weighed& own) {
    const int64_t n = op_.devices();
    auto bytes = [&](ValueId v) { return largestBytes(w_.m, w_.m[v].type, op_.mesh()).value_or(0); };
    const int64_t values = bytes(own.values), sums = bytes(own.sum), all = values + sums;
    auto seconds = [&](StepKind kind, int64_t in, int64_t out) {
      return priceOf(kind, op_.axes(), in, out, op_.mesh(), NominalMachine{}).seconds;
    };
    return seconds(StepKind::AllGather, all, all * n) <=
           seconds(StepKind::AllReduce, sums, sums) + seconds(StepKind::AllReduce, all, all);
  }

  // --- ring ---

  // Whether the mask circulates with the keys; otherwise it has no dim of keys.
  [[nodiscard]] bool maskTravels() const {
    if (!mask_.valid()) return false;
    const Type& global = op_.global.type(3);
    return global.rank() > 0 && !(global.dims.back().isStatic() && global.dims.back().value() == 1);
  }
  [[nodiscard]] bool maskHasRows() const {
    if (!mask_.valid()) return false;
    const Type& global = op_.global.type(3);
    return global.rank() > 1 &&
           !(global.dims[global.rank() - 2].isStatic() && global.dims[global.rank() - 2].value() == 1);
  }

  [[nodiscard]] bool goRound(std::vector<ValueId>& results) {
    std::vector<ValueId> travel = {op_.operands[1], op_.operands[2]};
    if (maskTravels()) travel.push_back(mask_);
    KeyRing ring(op_, travel);
    if (!ring.possible()) return false;
    positional_ = op_.global.boolAttr("causal") || op_.global.intAttr("window") != 0;
    const Type &q = op_.global.type(0), &v = op_.global.type(2);
    double flops = 2;
    for (Dim d : {q.dims[0], q.dims[1]}) flops *= d.isStatic() ? static_cast<double>(d.value()) : 1;
    flops *= static_cast<double>(q.dims[3].value() + (v.dims[3].isStatic() ? v.dims[3].value() : 0));
    std::vector<ValueId> exchanged = travel;
    exchanged.insert(exchanged.begin(), op_.operands[0]);
    const TypeId returned[] = {op_.results[0]};
    if (ring.choose({flops, exchanged, returned, 0, !maskHasRows() && !offset_.valid()}) ==
        RingForm::Balanced)
      balanced(ring, exchanged, results);
    else
      ordered(ring, travel, results);
    return true;
  }

  // The keys of a block, and the mask for them.
  ValueId maskOf(Expr limit, ValueId mask) {
    if (!limit.valid() || !mask.valid()) return limit.valid() ? ValueId(limit) : mask;
    if (!isFloat(op_.dtypeOf(mask))) return limit & mask;
    return select(limit, mask, -INFINITY);
  }
  static std::vector<ValueId> listed(const Weighed& x) { return {x.rowMax, x.sum, x.values}; }
  static Weighed unlisted(std::span<const ValueId> x) { return {x[0], x[1], x[2]}; }

  void ordered(KeyRing& ring, const std::vector<ValueId>& shards, std::vector<ValueId>& results) {
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    for (ValueId v : shards) travel.push_back(w_.filled(v)), like.push_back(op_.typeOf(v));
    const Expr from = positional_ ? queryOffset() : Expr();
    auto own = [&](KeyRing::Step&) {
      const Expr distance =
          positional_ ? from - op_.shardOffset(op_.global.type(1).dims[kSequence], ring.axes) : Expr();
      sums = listed(weigh(w_, op_.operand(0), shards[0], shards[1], mask_, distance));
    };
    auto others = [&](KeyRing::Step& s) {
      const Expr key = s.w.trimmed(s.block[0], like[0], kSequence),
                 value = s.w.trimmed(s.block[1], like[1], kSequence);
      ValueId mask = mask_;
      if (shards.size() > 2)
        mask = s.w.trimmed(s.block[2], like[2], static_cast<int64_t>(like[2].rank()) - 1);
      const Expr limit = ring.keyLimit(s.w, s.source, key.dims()[kSequence]);
      const Expr distance = positional_ ? s.w.in(from)-ring.begin(s.source) : Expr();
      const Weighed block = weigh(s.w, op_.operands[0], key, value, maskOf(limit, mask), distance);
      s.sums = listed(both(s.w, unlisted(s.sums), block));
    };
    ring.run(std::move(travel), sums, {}, home, own, others);
    finish(unlisted(sums), results);
  }

  // Keys and values (and mask) of one chunk.
  struct Block {
    ValueId key, value, mask;
  };

  // The device attends to its own two chunks. For every other device, its late queries see that device's
  // early keys. In addition, if that device comes before this one, the early queries see the early keys,
  // otherwise the late queries see the late keys.
  void balanced(KeyRing& ring, const std::vector<ValueId>& shards, std::vector<ValueId>& results) {
    std::vector<int64_t> dims = {kSequence, kSequence, kSequence};
    if (shards.size() > 3) dims.push_back(static_cast<int64_t>(op_.typeOf(shards[3]).rank()) - 1);
    const std::vector<Chunks> own = ring.toChunks(shards, dims);
    const Chunks query = own[0];
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    for (bool late : {false, true})
      for (size_t i = 1; i < own.size(); ++i) {
        const ValueId v = late ? own[i].late : own[i].early;
        like.push_back(op_.typeOf(v));
        travel.push_back(w_.filled(v));
      }
    const size_t half = own.size() - 1;
    auto blockOf = [&](RingWriter& w, std::span<const ValueId> block, Expr source, bool late) {
      auto part = [&](size_t i) {
        const size_t at = (late ? half : 0) + i;
        return w.trimmed(block[at], like[at], dims[i + 1]);
      };
      const ValueId mask = half > 2 ? ValueId(part(2)) : mask_;
      return Block{part(0), part(1), maskOf(ring.chunkLimit(w, source, late), mask)};
    };
    auto first = [&](KeyRing::Step& s) {
      const Expr here = w_.number(0);
      const Block early = blockOf(w_, s.block, ring.me(), false),
                  late = blockOf(w_, s.block, ring.me(), true);
      auto meet = [&](ValueId q, const Block& k, ValueId distance) {
        return weigh(w_, q, k.key, k.value, k.mask, distance);
      };
      const Weighed e = meet(query.early, early, here);
      const Weighed first = meet(query.late, early, {});
      const Weighed l = both(w_, first, meet(query.late, late, here));
      sums = listed(e);
      for (ValueId v : listed(l)) sums.push_back(v);
    };
    auto others = [&](KeyRing::Step& s) {
      RingWriter& w = s.w;
      const Block early = blockOf(w, s.block, s.source, false), late = blockOf(w, s.block, s.source, true);
      Weighed e = unlisted(std::span(s.sums).first(3)), l = unlisted(std::span(s.sums).subspan(3));
      l = both(w, l, weigh(w, query.late, early.key, early.value, early.mask, {}));
      auto either = [&](ValueId x, ValueId y) { return x.valid() ? ValueId(select(s.before, x, y)) : x; };
      const ValueId q = either(query.early, query.late), key = either(early.key, late.key);
      const ValueId value = either(early.value, late.value);
      const Weighed other = weigh(w, q, key, value, either(early.mask, late.mask), {});
      auto unless = [&](bool before) { // the neutral state if the block belongs to the other case
        auto pick = [&](ValueId x, double none) {
          return before ? select(s.before, x, none) : select(s.before, none, x);
        };
        return Weighed{pick(other.rowMax, -INFINITY), pick(other.sum, 0), pick(other.values, 0)};
      };
      e = both(w, e, unless(true)), l = both(w, l, unless(false));
      s.sums = listed(e);
      for (ValueId v : listed(l)) s.sums.push_back(v);
    };
    ring.run(std::move(travel), sums, {}, home, first, others);
    exchangeBack(ring, unlisted(std::span(sums).first(3)), unlisted(std::span(sums).subspan(3)), results);
  }
  void exchangeBack(KeyRing& ring, const Weighed& early, const Weighed& late, std::vector<ValueId>& results) {
    std::vector<ValueId> e, l;
    finish(early, e), finish(late, l);
    std::vector<Chunks> chunks;
    std::vector<int64_t> dims(e.size(), kSequence);
    std::vector<Type> types;
    for (size_t i = 0; i < e.size(); ++i)
      chunks.push_back({e[i], l[i]}), types.push_back(w_.m.types[op_.results[i]]);
    results = ring.toShards(chunks, dims, types);
  }

  ShardedOp& op_;
  RingWriter w_;
  ValueId mask_;
  Expr offset_;
  bool positional_ = false; // the visible keys depend on the position of the query
};

} // namespace

bool shardAttention(ShardedOp& op, std::vector<ValueId>& results) {
  return ShardedAttention(op).run(results);
}

} // namespace dtc
