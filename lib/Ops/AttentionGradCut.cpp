// attention_grad with its keys or its queries cut along their sequence. The gradients are sums over pairs of a query and a key, so
// that each device does the pairs that it has, and dq, or dk and dv, come out as partial sums. Where queries and keys are cut by
// the same axes, keys and values go round as in attention (AttentionRing.h), and their gradients behind them: what each
// device adds to these arrives where the keys are at home.
#include "AttentionParts.h"
#include "AttentionRing.h"
#include "dtc/IR/LocalShape.h"
#include <cmath>

namespace dtc {

namespace {

constexpr int64_t kSequence = 2; // the dim of q, k, v and of what is known of each query

class AttentionGradCut {
public:
  explicit AttentionGradCut(CutOp& op) : op_(op), w_(op) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const OpQuery& whole = op_.whole;
    if (!whole.type(0).dims[3].isStatic() || !whole.type(2).dims[3].isStatic()) return false;
    if (hasAttentionMask(whole)) mask_ = op_.operands[6];
    if (hasAttentionOffset(whole)) offset_ = op_.operands.back();
    placed_ = whole.boolAttr("causal") || whole.intAttr("window") != 0;
    const CutFactor &queries = op_.operandCut(0, kSequence), &keys = op_.operandCut(1, kSequence);
    if (queries.cut() && queries.axes == keys.axes) return goRound(results);
    ValueId distance;
    if (placed_) distance = w_.sub(queryOffset(), op_.pieceOffset(whole.type(1).dims[kSequence], keys.axes));
    const Gradients g = gradients(w_, ownRows(), {op_.operands[1], op_.operands[2], mask_}, distance);
    results = {narrowed(g.query), narrowed(g.key), narrowed(g.value)};
    return true;
  }

private:
  // What a device knows of its queries: [batch, heads, s, d], [batch, heads, s] twice, [batch, heads, s, e].
  struct Rows {
    ValueId query, lse, delta, dy;
  };
  struct Block { // keys, their values and what a mask says of them
    ValueId key, value, mask;
  };
  struct Gradients {
    ValueId query, key, value; // in the dtype that sums are carried in
  };

  Rows ownRows() { return {op_.operands[0], op_.operands[3], op_.operands[4], op_.operands[5]}; }
  ValueId narrowed(ValueId x) { return op_.convert(x, op_.dtypeOf(op_.operands[0])); }

  // Where the queries of this device begin.
  ValueId queryOffset() {
    ValueId at = offset_;
    if (const CutFactor& s = op_.operandCut(0, kSequence); s.cut()) {
      const ValueId own = op_.pieceOffset(op_.whole.type(0).dims[kSequence], s.axes);
      at = at.valid() ? w_.add(own, at) : own;
    }
    return at.valid() ? at : w_.number(0);
  }

  // Of the pairs of some queries with one block of keys; `distance`: how far its first key is before the first query, invalid:
  // every key is seen.
  Gradients gradients(RingWriter& w, const Rows& rows, const Block& block, ValueId distance) {
    const bool narrow = dtypeBytes(op_.dtypeOf(rows.query)) == 1; // not to be rounded to for each block
    auto taken = [&](ValueId x) { return narrow ? w.op.wide(x) : x; };
    std::vector<ValueId> operands = {taken(rows.query), taken(block.key), taken(block.value),
                                     rows.lse,          rows.delta,       taken(rows.dy)};
    if (block.mask.valid())
      operands.push_back(isFloat(op_.dtypeOf(block.mask)) ? taken(block.mask) : block.mask);
    if (distance.valid()) operands.push_back(distance);
    const OpQuery& whole = op_.whole;
    const OpId made = w.b.op("attention_grad", operands,
                             {{"causal", w.b.boolean(distance.valid() && whole.boolAttr("causal"))},
                              {"scale", whole.rawAttr("scale")},
                              {"window", w.b.integer(distance.valid() ? whole.intAttr("window") : 0)}});
    return {w.op.wide(w.m.result(made, 0)), w.op.wide(w.m.result(made, 1)), w.op.wide(w.m.result(made, 2))};
  }

  // --- round the ring ---

  [[nodiscard]] bool isOne(const Type& t, size_t fromBack) const {
    return t.rank() < fromBack ||
           (t.dims[t.rank() - fromBack].isStatic() && t.dims[t.rank() - fromBack].value() == 1);
  }

  [[nodiscard]] bool goRound(std::vector<ValueId>& results) {
    std::vector<ValueId> travel = {op_.operands[1], op_.operands[2]};
    if (mask_.valid() && !isOne(op_.whole.type(6), 1)) travel.push_back(mask_);
    KeyRing ring(op_, travel);
    if (!ring.possible()) return false;
    const Type &q = op_.whole.type(0), &v = op_.whole.type(2);
    double flops = 2; // of a pair: five products
    for (Dim d : {q.dims[0], q.dims[1]}) flops *= d.isStatic() ? static_cast<double>(d.value()) : 1;
    flops *= static_cast<double>(3 * q.dims[3].value() + 2 * v.dims[3].value());
    std::vector<TypeId> back;
    int64_t bytesBack = 0;
    for (ValueId x : {op_.operands[1], op_.operands[2]}) {
      back.push_back(homeType(x));
      bytesBack += largestBytes(w_.m, back.back(), op_.mesh()).value_or(0);
    }
    const bool maskHasRows = mask_.valid() && !isOne(op_.whole.type(6), 2);
    std::vector<ValueId> exchanged = {op_.operands[0], op_.operands[3], op_.operands[4], op_.operands[5]};
    exchanged.insert(exchanged.end(), travel.begin(), travel.end());
    if (ring.choose({flops, exchanged, op_.results, bytesBack, !maskHasRows && !offset_.valid()}) ==
        RingForm::Balanced)
      balanced(ring, exchanged, results);
    else
      ordered(ring, travel, back, results);
    return true;
  }

  // Of what is sent home for keys or values `x`: filled, and as sums are carried.
  TypeId homeType(ValueId x) {
    Type t = op_.typeOf(x);
    for (Dim& d : t.dims)
      if (w_.isCut(d)) {
        const DimExpr e = w_.m.dims.expr(d);
        const int64_t k = op_.mesh().sizeOf(e.cut);
        d = Dim((e.coefficient + k - 1) / k);
      }
    return w_.m.tensorType(accumulationType(t.dtype), t.dims);
  }

  ValueId maskOf(RingWriter& w, ValueId limit, ValueId mask) {
    if (!limit.valid() || !mask.valid()) return limit.valid() ? limit : mask;
    if (!isFloat(op_.dtypeOf(mask))) return w.b.value("and", {limit, mask});
    return w.select(limit, mask, w.op.scalar(-INFINITY, mask));
  }

  void ordered(KeyRing& ring, const std::vector<ValueId>& pieces, const std::vector<TypeId>& back,
               std::vector<ValueId>& results) {
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    for (ValueId v : pieces) travel.push_back(w_.filled(v)), like.push_back(op_.typeOf(v));
    const Rows rows = ownRows();
    const ValueId from = placed_ ? queryOffset() : ValueId();
    auto own = [&](KeyRing::Step& s) {
      const ValueId distance =
          placed_ ? w_.sub(from, op_.pieceOffset(op_.whole.type(1).dims[kSequence], ring.axes)) : ValueId();
      const Gradients g = gradients(w_, rows, {pieces[0], pieces[1], mask_}, distance);
      s.sums = {g.query};
      s.back = {g.key, g.value};
    };
    auto others = [&](KeyRing::Step& s) {
      Block block{s.w.trimmed(s.block[0], like[0], kSequence), s.w.trimmed(s.block[1], like[1], kSequence),
                  mask_};
      if (pieces.size() > 2)
        block.mask = s.w.trimmed(s.block[2], like[2], static_cast<int64_t>(like[2].rank()) - 1);
      const ValueId limit = ring.keyLimit(s.w, s.source, s.w.m.typeOf(block.key).dims[kSequence]);
      block.mask = maskOf(s.w, limit, block.mask);
      const ValueId distance = placed_ ? s.w.sub(from, ring.begin(s.w, s.source)) : ValueId();
      const Gradients g = gradients(s.w, rows, block, distance);
      s.sums[0] = s.w.add(s.sums[0], g.query);
      s.back = {s.w.filled(g.key), s.w.filled(g.value)};
    };
    ring.run(std::move(travel), sums, back, home, own, others);
    for (size_t i = 2; i < home.size(); ++i)
      home[i - 2] = w_.add(home[i - 2], w_.trimmed(home[i], like[i - 2]));
    results = {narrowed(sums[0]), narrowed(home[0]), narrowed(home[1])};
  }

  // As attention does: every device's own two chunks, and of each other's two of the four pairs of chunks.
  void balanced(KeyRing& ring, const std::vector<ValueId>& pieces, std::vector<ValueId>& results) {
    std::vector<int64_t> dims(pieces.size(), kSequence);
    if (pieces.size() > 6) dims[6] = static_cast<int64_t>(op_.typeOf(pieces[6]).rank()) - 1;
    const std::vector<Chunks> own = ring.toChunks(pieces, dims);
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
    auto blockOf = [&](RingWriter& w, std::span<const ValueId> block, ValueId source, bool second) {
      auto part = [&](size_t i) {
        const size_t at = (second ? half : 0) + i;
        return w.trimmed(block[at], like[at], dims[4 + i]);
      };
      const ValueId mask = half > 2 ? part(2) : mask_;
      return Block{part(0), part(1), maskOf(w, ring.chunkLimit(w, source, second), mask)};
    };
    auto first = [&](KeyRing::Step& s) {
      const ValueId here = w_.number(0);
      const Block e = blockOf(w_, s.block, ring.me(), false), l = blockOf(w_, s.block, ring.me(), true);
      const Gradients ee = gradients(w_, early, e, here), le = gradients(w_, late, e, {}),
                      ll = gradients(w_, late, l, here);
      s.sums = {ee.query, w_.add(le.query, ll.query)};
      s.back = {w_.add(ee.key, le.key), w_.add(ee.value, le.value), ll.key, ll.value};
    };
    auto others = [&](KeyRing::Step& s) {
      RingWriter& w = s.w;
      const Block e = blockOf(w, s.block, s.source, false), l = blockOf(w, s.block, s.source, true);
      auto either = [&](ValueId x, ValueId y) { return x.valid() ? w.select(s.before, x, y) : x; };
      const Rows rows{either(early.query, late.query), either(early.lse, late.lse),
                      either(early.delta, late.delta), either(early.dy, late.dy)};
      const Gradients a = gradients(w, late, e, {}),
                      b = gradients(w, rows,
                                    {either(e.key, l.key), either(e.value, l.value), either(e.mask, l.mask)},
                                    {});
      auto ifBefore = [&](ValueId x) { return w.select(s.before, x, w.op.scalar(0, x)); };
      auto ifBehind = [&](ValueId x) { return w.select(s.before, w.op.scalar(0, x), x); };
      s.sums = {w.add(s.sums[0], ifBefore(b.query)), w.add(s.sums[1], w.add(a.query, ifBehind(b.query)))};
      s.back = {w.add(a.key, ifBefore(b.key)), w.add(a.value, ifBefore(b.value)), ifBehind(b.key),
                ifBehind(b.value)};
      for (ValueId& v : s.back) v = w.filled(v);
    };
    ring.run(std::move(travel), sums, back, home, first, others);
    for (size_t i = 4; i < home.size(); ++i) {
      const size_t of = i - 4; // early keys, early values, late keys, late values
      home[of] = w_.add(home[of], w_.trimmed(home[i], like[of / 2 * half + of % 2], kSequence));
    }
    const Chunks chunks[] = {{narrowed(sums[0]), narrowed(sums[1])},
                             {narrowed(home[0]), narrowed(home[2])},
                             {narrowed(home[1]), narrowed(home[3])}};
    std::vector<Type> types;
    for (TypeId t : op_.results) types.push_back(w_.m.types[t]);
    results = ring.toPieces(chunks, std::vector<int64_t>(3, kSequence), types);
  }

  CutOp& op_;
  RingWriter w_;
  ValueId mask_, offset_;
  bool placed_ = false; // what a query sees depends on its place
};

} // namespace

bool cutAttentionGrad(CutOp& op, std::vector<ValueId>& results) { return AttentionGradCut(op).run(results); }

} // namespace dtc
