// attention_grad with keys or queries sharded along their sequence. The gradients are sums over pairs of a
// query and a key: each device handles its own pairs, and dq, or dk and dv, become partial sums. If queries
// and keys are sharded by the same axes, keys and values circulate in a ring as in attention
// (AttentionRing.h), followed by their gradients, to which each device adds its contribution until they
// return to the owner of the keys.
#include "attention/AttentionParts.h"
#include "attention/AttentionRing.h"
#include "dtc/IR/LocalShape.h"
#include <cmath>

namespace dtc {

namespace {

constexpr int64_t kGradSequence = 2; // the dim of q, k, v and of the per-query tensors

class ShardedAttentionGrad {
public:
  explicit ShardedAttentionGrad(ShardedOp& op) : op_(op), w_(op) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const OpQuery& global = op_.global;
    if (!global.type(0).dims[3].isStatic() || !global.type(2).dims[3].isStatic()) return false;
    if (hasAttentionMask(global)) mask_ = op_.operand(6);
    if (hasAttentionOffset(global)) offset_ = op_.value(op_.operands.back());
    positional_ = global.boolAttr("causal") || global.intAttr("window") != 0;
    const ShardedFactor &queries = op_.operandFactor(0, kGradSequence),
                        &keys = op_.operandFactor(1, kGradSequence);
    if (queries.isSharded() && queries.axes == keys.axes) return goRound(results);
    Expr distance;
    if (positional_)
      distance = queryOffset() - op_.shardOffset(global.type(1).dims[kGradSequence], keys.axes);
    const Gradients g = gradients(w_, ownRows(), {op_.operands[1], op_.operands[2], mask_}, distance);
    results = {narrowed(g.query), narrowed(g.key), narrowed(g.value)};
    return true;
  }

private:
  // The per-query tensors of a device: [batch, heads, s, d], [batch, heads, s] twice, [batch, heads, s, e].
  struct Rows {
    ValueId query, lse, delta, dy;
  };
  struct Block { // keys, values and their part of the mask
    ValueId key, value, mask;
  };
  struct Gradients {
    Expr query, key, value; // in the accumulation dtype
  };

  Rows ownRows() const { return {op_.operands[0], op_.operands[3], op_.operands[4], op_.operands[5]}; }
  Expr narrowed(ValueId x) { return op_.convert(x, op_.dtypeOf(op_.operands[0])); }

  // The offset of this device's queries.
  Expr queryOffset() {
    Expr at = offset_;
    if (const ShardedFactor& s = op_.operandFactor(0, kGradSequence); s.isSharded()) {
      const Expr own = op_.shardOffset(op_.global.type(0).dims[kGradSequence], s.axes);
      at = at.valid() ? own + at : own;
    }
    return at.valid() ? at : w_.number(0);
  }

  // The pairs of some queries with one block of keys. `distance`: the position of the first query relative to
  // the block's first key; invalid: all keys are visible.
  Gradients gradients(RingWriter& w, const Rows& rows, const Block& block, ValueId distance) {
    const bool narrow = dtypeBytes(op_.dtypeOf(rows.query)) == 1; // rounded once, not for each block
    auto taken = [&](ValueId x) { return narrow ? w.op.wide(x) : w.in(x); };
    const Expr q = taken(rows.query), k = taken(block.key), v = taken(block.value), dy = taken(rows.dy);
    const bool added = block.mask.valid() && isFloat(op_.dtypeOf(block.mask));
    const OpQuery& global = op_.global;
    const auto made = attention_grad(q, k, v, rows.lse, rows.delta, dy,
                                     {.mask = added ? ValueId(taken(block.mask)) : block.mask,
                                      .offset = distance,
                                      .causal = distance.valid() && global.boolAttr("causal"),
                                      .scale = global.rawAttr("scale"),
                                      .window = distance.valid() ? global.intAttr("window") : 0});
    return {w.op.wide(made[0]), w.op.wide(made[1]), w.op.wide(made[2])};
  }

  // --- ring ---

  [[nodiscard]] bool isOne(const Type& t, size_t fromBack) const {
    return t.rank() < fromBack ||
           (t.dims[t.rank() - fromBack].isStatic() && t.dims[t.rank() - fromBack].value() == 1);
  }

  [[nodiscard]] bool goRound(std::vector<ValueId>& results) {
    std::vector<ValueId> travel = {op_.operands[1], op_.operands[2]};
    if (mask_.valid() && !isOne(op_.global.type(6), 1)) travel.push_back(mask_);
    KeyRing ring(op_, travel);
    if (!ring.possible()) return false;
    const Type &q = op_.global.type(0), &v = op_.global.type(2);
    double flops = 2; // per pair: five matmuls
    for (Dim d : {q.dims[0], q.dims[1]}) flops *= d.isStatic() ? static_cast<double>(d.value()) : 1;
    flops *= static_cast<double>(3 * q.dims[3].value() + 2 * v.dims[3].value());
    std::vector<TypeId> back;
    int64_t bytesBack = 0;
    for (ValueId x : {op_.operands[1], op_.operands[2]}) {
      back.push_back(homeType(x));
      bytesBack += largestBytes(w_.m, back.back(), op_.mesh()).value_or(0);
    }
    const bool maskHasRows = mask_.valid() && !isOne(op_.global.type(6), 2);
    std::vector<ValueId> exchanged = {op_.operands[0], op_.operands[3], op_.operands[4], op_.operands[5]};
    exchanged.insert(exchanged.end(), travel.begin(), travel.end());
    if (ring.choose({flops, exchanged, op_.results, bytesBack, !maskHasRows && !offset_.valid()}) ==
        RingForm::Balanced)
      balanced(ring, exchanged, results);
    else
      ordered(ring, travel, back, results);
    return true;
  }

  // The type of what is returned for keys or values `x`: padded, in the accumulation dtype.
  TypeId homeType(ValueId x) {
    Type t = op_.typeOf(x);
    for (Dim& d : t.dims)
      if (w_.isSharded(d)) {
        const DimExpr e = w_.m.dims.expr(d);
        const int64_t k = op_.mesh().sizeOf(e.axes);
        d = Dim((e.coefficient + k - 1) / k);
      }
    return w_.m.tensorType(accumulationType(t.dtype), t.dims);
  }

  ValueId maskOf(Expr limit, ValueId mask) {
    if (!limit.valid() || !mask.valid()) return limit.valid() ? ValueId(limit) : mask;
    if (!isFloat(op_.dtypeOf(mask))) return limit & mask;
    return select(limit, mask, -INFINITY);
  }

  void ordered(KeyRing& ring, const std::vector<ValueId>& shards, const std::vector<TypeId>& back,
               std::vector<ValueId>& results) {
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    for (ValueId v : shards) travel.push_back(w_.filled(v)), like.push_back(op_.typeOf(v));
    const Rows rows = ownRows();
    const Expr from = positional_ ? queryOffset() : Expr();
    auto own = [&](KeyRing::Step& s) {
      const Expr distance =
          positional_ ? from - op_.shardOffset(op_.global.type(1).dims[kGradSequence], ring.axes) : Expr();
      const Gradients g = gradients(w_, rows, {shards[0], shards[1], mask_}, distance);
      s.sums = {g.query};
      s.back = {g.key, g.value};
    };
    auto others = [&](KeyRing::Step& s) {
      Block block{s.w.trimmed(s.block[0], like[0], kGradSequence),
                  s.w.trimmed(s.block[1], like[1], kGradSequence), mask_};
      if (shards.size() > 2)
        block.mask = s.w.trimmed(s.block[2], like[2], static_cast<int64_t>(like[2].rank()) - 1);
      const Expr limit = ring.keyLimit(s.w, s.source, op_.typeOf(block.key).dims[kGradSequence]);
      block.mask = maskOf(limit, block.mask);
      const Expr distance = positional_ ? s.w.in(from)-ring.begin(s.source) : Expr();
      const Gradients g = gradients(s.w, rows, block, distance);
      s.sums[0] = s.w.in(s.sums[0]) + g.query;
      s.back = {s.w.filled(g.key), s.w.filled(g.value)};
    };
    ring.run(std::move(travel), sums, back, home, own, others);
    for (size_t i = 2; i < home.size(); ++i)
      home[i - 2] = w_.in(home[i - 2]) + w_.trimmed(home[i], like[i - 2]);
    results = {narrowed(sums[0]), narrowed(home[0]), narrowed(home[1])};
  }

  // As in attention: the device's own two chunks, and two of the four pairs of chunks for every other device.
  void balanced(KeyRing& ring, const std::vector<ValueId>& shards, std::vector<ValueId>& results) {
    std::vector<int64_t> dims(shards.size(), kGradSequence);
    if (shards.size() > 6) dims[6] = static_cast<int64_t>(op_.typeOf(shards[6]).rank()) - 1;
    const std::vector<Chunks> own = ring.toChunks(shards, dims);
    const Rows early{own[0].early, own[1].early, own[2].early, own[3].early},
        late{own[0].late, own[1].late, own[2].late, own[3].late};
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    std::vector<TypeId> back;
    const size_t half = own.size() - 4;
    for (bool second : {false, true})
      for (size_t i = 0; i < half; ++i) {
        const ValueId v = second ? own[4 + i].late : own[4 + i].early;
        like.push_back(op_.typeOf(v));
        travel.push_back(w_.filled(v));
        if (i < 2) back.push_back(homeType(v));
      }
    auto blockOf = [&](RingWriter& w, std::span<const ValueId> block, Expr source, bool second) {
      auto part = [&](size_t i) {
        const size_t at = (second ? half : 0) + i;
        return w.trimmed(block[at], like[at], dims[4 + i]);
      };
      const ValueId mask = half > 2 ? ValueId(part(2)) : mask_;
      return Block{part(0), part(1), maskOf(ring.chunkLimit(w, source, second), mask)};
    };
    auto first = [&](KeyRing::Step& s) {
      const Expr here = w_.number(0);
      const Block e = blockOf(w_, s.block, ring.me(), false), l = blockOf(w_, s.block, ring.me(), true);
      const Gradients ee = gradients(w_, early, e, here), le = gradients(w_, late, e, {}),
                      ll = gradients(w_, late, l, here);
      s.sums = {ee.query, le.query + ll.query};
      s.back = {ee.key + le.key, ee.value + le.value, ll.key, ll.value};
    };
    auto others = [&](KeyRing::Step& s) {
      RingWriter& w = s.w;
      const Block e = blockOf(w, s.block, s.source, false), l = blockOf(w, s.block, s.source, true);
      auto either = [&](ValueId x, ValueId y) { return x.valid() ? ValueId(select(s.before, x, y)) : x; };
      const Rows rows{either(early.query, late.query), either(early.lse, late.lse),
                      either(early.delta, late.delta), either(early.dy, late.dy)};
      const Gradients a = gradients(w, late, e, {}),
                      b = gradients(w, rows,
                                    {either(e.key, l.key), either(e.value, l.value), either(e.mask, l.mask)},
                                    {});
      auto ifBefore = [&](Expr x) { return select(s.before, x, 0); };
      auto ifAfter = [&](Expr x) { return select(s.before, 0, x); };
      s.sums[0] = w.in(s.sums[0]) + ifBefore(b.query);
      s.sums[1] = w.in(s.sums[1]) + (a.query + ifAfter(b.query));
      s.back = {a.key + ifBefore(b.key), a.value + ifBefore(b.value), ifAfter(b.key), ifAfter(b.value)};
      for (ValueId& v : s.back) v = w.filled(v);
    };
    ring.run(std::move(travel), sums, back, home, first, others);
    for (size_t i = 4; i < home.size(); ++i) {
      const size_t of = i - 4; // early keys, early values, late keys, late values
      home[of] = w_.in(home[of]) + w_.trimmed(home[i], like[of / 2 * half + of % 2], kGradSequence);
    }
    const Chunks chunks[] = {{narrowed(sums[0]), narrowed(sums[1])},
                             {narrowed(home[0]), narrowed(home[2])},
                             {narrowed(home[1]), narrowed(home[3])}};
    std::vector<Type> types;
    for (TypeId t : op_.results) types.push_back(w_.m.types[t]);
    results = ring.toShards(chunks, std::vector<int64_t>(3, kGradSequence), types);
  }

  ShardedOp& op_;
  RingWriter w_;
  ValueId mask_;
  Expr offset_;
  bool positional_ = false; // the visible keys depend on the position of the query
};

} // namespace

bool shardAttentionGrad(ShardedOp& op, std::vector<ValueId>& results) {
  return ShardedAttentionGrad(op).run(results);
}

} // namespace dtc
