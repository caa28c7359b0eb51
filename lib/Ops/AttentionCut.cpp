// attention with its keys and values cut along their sequence. Each device weighs the values of its own keys (an attention over
// them, with the log of each row's sum of exponentials); those merge as softmax's sums do. Where the queries are not cut by
// the same axes, one exchange of these merges them. Where they are, the keys go round (AttentionRing.h).
#include "AttentionParts.h"
#include "AttentionRing.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include <cmath>

namespace dtc {

namespace {

constexpr int64_t kSequence = 2; // the dim of q, k, v

// Of the keys seen so far, for each query: the greatest weight's logarithm, and relative to that the sum of all weights and of the
// values so weighed. [batch, heads, s, 1], and [batch, heads, s, e].
struct Weighed {
  ValueId greatest, sum, values;
};

class AttentionCut {
public:
  explicit AttentionCut(CutOp& op) : op_(op), w_(op) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    const OpQuery& whole = op_.whole;
    if (!whole.type(0).dims[3].isStatic()) return false;
    if (hasAttentionMask(whole)) mask_ = op_.operands[3];
    if (hasAttentionOffset(whole)) offset_ = op_.operands.back();
    const CutFactor &queries = op_.operandCut(0, kSequence), &keys = op_.operandCut(1, kSequence);
    if (queries.cut() && queries.axes == keys.axes) return goRound(results);
    placed_ = whole.boolAttr("causal") || whole.intAttr("window") != 0;
    ValueId distance;
    if (placed_) distance = w_.sub(queryOffset(), op_.pieceOffset(whole.type(1).dims[kSequence], keys.axes));
    finish(merged(weigh(w_, op_.operands[0], op_.operands[1], op_.operands[2], mask_, distance)), results);
    return true;
  }

private:
  ValueId exp(RingWriter& w, ValueId x) { return w.b.value("exp", {x}); }
  ValueId max(RingWriter& w, ValueId x, ValueId y) { return w.b.value("max", {x, y}); }
  ValueId isNone(RingWriter& w, ValueId x) { return w.b.value("eq", {x, w.op.scalar(-INFINITY, x)}); }
  // exp(-inf - -inf) is no number: of no key the shift is 0.
  ValueId shiftOf(RingWriter& w, ValueId greatest) {
    return w.select(isNone(w, greatest), w.op.scalar(0, greatest), greatest);
  }

  // Where the queries of this device begin.
  ValueId queryOffset() {
    ValueId at = offset_;
    if (const CutFactor& s = op_.operandCut(0, kSequence); s.cut()) {
      const ValueId own = op_.pieceOffset(op_.whole.type(0).dims[kSequence], s.axes);
      at = at.valid() ? w_.add(own, at) : own;
    }
    return at.valid() ? at : w_.number(0);
  }

  // Of one block of keys. `distance`: how far its first key is before the first query; invalid: every key is seen.
  Weighed weigh(RingWriter& w, ValueId query, ValueId key, ValueId value, ValueId mask, ValueId distance) {
    const bool narrow = dtypeBytes(op_.dtypeOf(query)) == 1; // not to be rounded to for each block
    auto taken = [&](ValueId x) { return narrow ? w.op.wide(x) : x; };
    std::vector<ValueId> operands = {taken(query), taken(key), taken(value)};
    if (mask.valid()) operands.push_back(isFloat(op_.dtypeOf(mask)) ? taken(mask) : mask);
    if (distance.valid()) operands.push_back(distance);
    const OpQuery& whole = op_.whole;
    const OpId made = w.b.op("attention", operands,
                             {{"causal", w.b.boolean(distance.valid() && whole.boolAttr("causal"))},
                              {"scale", whole.rawAttr("scale")},
                              {"window", w.b.integer(distance.valid() ? whole.intAttr("window") : 0)},
                              {"lse", w.b.boolean(true)}});
    const int64_t last = 3;
    const ValueId y = w.op.wide(w.m.result(made)),
                  lse = w.b.value("expand_dims", {w.m.result(made, 1)}, {{"dims", w.b.ints({&last, 1})}});
    const ValueId none = isNone(w, lse), zero = w.op.scalar(0, y); // 0 / 0 of no key
    return {lse, w.select(none, zero, w.b.constant(1, w.m[lse].type)), w.select(none, zero, y)};
  }

  Weighed both(RingWriter& w, const Weighed& x, const Weighed& y) {
    const ValueId greatest = max(w, x.greatest, y.greatest), shift = shiftOf(w, greatest);
    const ValueId u = exp(w, w.sub(x.greatest, shift)), v = exp(w, w.sub(y.greatest, shift));
    return {greatest, w.add(w.mul(x.sum, u), w.mul(y.sum, v)), w.add(w.mul(x.values, u), w.mul(y.values, v))};
  }

  void finish(const Weighed& all, std::vector<ValueId>& results) {
    results.push_back(op_.convert(w_.b.value("div", {all.values, all.sum}), op_.dtypeOf(op_.operands[0])));
    if (op_.whole.boolAttr("lse")) results.push_back(logSum(all));
  }
  ValueId logSum(const Weighed& all) {
    const int64_t last = 3;
    const ValueId lse = w_.add(w_.b.value("log", {all.sum}), shiftOf(w_, all.greatest));
    return w_.b.value("squeeze", {lse}, {{"dims", w_.b.ints({&last, 1})}});
  }

  // --- all devices' at once ---

  // Values and sums in one tensor; where the values' own dim is cut they stay apart.
  Weighed merged(const Weighed& own) {
    const Dim columns = op_.typeOf(own.values).dims.back();
    if (!columns.isStatic()) {
      const Weighed scaled = scaledToAll(own);
      return {scaled.greatest, op_.allReduce(scaled.sum, PendingKind::Sum),
              op_.allReduce(scaled.values, PendingKind::Sum)};
    }
    if (!gatheredIsCheaper(own)) {
      const Weighed scaled = scaledToAll(own);
      const auto parts =
          apart(op_.allReduce(together(scaled.values, scaled.sum), PendingKind::Sum), columns.value());
      return {scaled.greatest, parts[1], parts[0]};
    }
    const int64_t first = 0;
    const auto all = apart(op_.gatherAll(together(own.values, own.greatest)), columns.value());
    const ValueId greatest = op_.over("max", all[1], {&first, 1}), shift = shiftOf(w_, greatest);
    const ValueId weight = exp(w_, w_.sub(all[1], shift));
    return {op_.over("max", all[1], {&first, 1}, false), op_.over("sum", weight, {&first, 1}, false),
            op_.over("sum", w_.mul(all[0], weight), {&first, 1}, false)};
  }
  // By the greatest of all devices.
  Weighed scaledToAll(const Weighed& own) {
    const ValueId greatest = op_.allReduce(own.greatest, PendingKind::Max);
    const ValueId weight = exp(w_, w_.sub(own.greatest, shiftOf(w_, greatest)));
    return {greatest, w_.mul(own.sum, weight), w_.mul(own.values, weight)};
  }
  ValueId together(ValueId values, ValueId beside) {
    return w_.b.value("concat", {values, beside}, {{"dim", w_.b.integer(-1)}});
  }
  std::vector<ValueId> apart(ValueId v, int64_t columns) {
    const ValueId in[] = {v};
    const OpId split = w_.b.op(
        "split", in, {{"sizes", w_.b.ints(std::array{columns, int64_t{1}})}, {"dim", w_.b.integer(-1)}});
    return {w_.m.result(split, 0), w_.m.result(split, 1)};
  }
  // One gather of all against a maximum and then a sum.
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

  // --- round the ring ---

  // Does the mask go round with the keys? Else it has no dim of theirs.
  [[nodiscard]] bool maskTravels() const {
    if (!mask_.valid()) return false;
    const Type& whole = op_.whole.type(3);
    return whole.rank() > 0 && !(whole.dims.back().isStatic() && whole.dims.back().value() == 1);
  }
  [[nodiscard]] bool maskHasRows() const {
    if (!mask_.valid()) return false;
    const Type& whole = op_.whole.type(3);
    return whole.rank() > 1 &&
           !(whole.dims[whole.rank() - 2].isStatic() && whole.dims[whole.rank() - 2].value() == 1);
  }

  [[nodiscard]] bool goRound(std::vector<ValueId>& results) {
    std::vector<ValueId> travel = {op_.operands[1], op_.operands[2]};
    if (maskTravels()) travel.push_back(mask_);
    KeyRing ring(op_, travel);
    if (!ring.possible()) return false;
    placed_ = op_.whole.boolAttr("causal") || op_.whole.intAttr("window") != 0;
    const Type &q = op_.whole.type(0), &v = op_.whole.type(2);
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

  // What of a block are keys, and what the mask says of them.
  ValueId maskOf(RingWriter& w, ValueId limit, ValueId mask) {
    if (!limit.valid() || !mask.valid()) return limit.valid() ? limit : mask;
    if (!isFloat(op_.dtypeOf(mask))) return w.b.value("and", {limit, mask});
    return w.select(limit, mask, w.op.scalar(-INFINITY, mask));
  }
  static std::vector<ValueId> listed(const Weighed& x) { return {x.greatest, x.sum, x.values}; }
  static Weighed unlisted(std::span<const ValueId> x) { return {x[0], x[1], x[2]}; }

  void ordered(KeyRing& ring, const std::vector<ValueId>& pieces, std::vector<ValueId>& results) {
    std::vector<ValueId> travel, sums, home;
    std::vector<Type> like;
    for (ValueId v : pieces) travel.push_back(w_.filled(v)), like.push_back(op_.typeOf(v));
    const ValueId from = placed_ ? queryOffset() : ValueId();
    auto own = [&](KeyRing::Step&) {
      const ValueId distance =
          placed_ ? w_.sub(from, op_.pieceOffset(op_.whole.type(1).dims[kSequence], ring.axes)) : ValueId();
      sums = listed(weigh(w_, op_.operands[0], pieces[0], pieces[1], mask_, distance));
    };
    auto others = [&](KeyRing::Step& s) {
      const ValueId key = s.w.trimmed(s.block[0], like[0], kSequence),
                    value = s.w.trimmed(s.block[1], like[1], kSequence);
      ValueId mask = mask_;
      if (pieces.size() > 2)
        mask = s.w.trimmed(s.block[2], like[2], static_cast<int64_t>(like[2].rank()) - 1);
      const ValueId limit = ring.keyLimit(s.w, s.source, s.w.m.typeOf(key).dims[kSequence]);
      const ValueId distance = placed_ ? s.w.sub(from, ring.begin(s.w, s.source)) : ValueId();
      s.sums = listed(both(s.w, unlisted(s.sums),
                           weigh(s.w, op_.operands[0], key, value, maskOf(s.w, limit, mask), distance)));
    };
    ring.run(std::move(travel), sums, {}, home, own, others);
    finish(unlisted(sums), results);
  }

  // Keys and their values (and mask) of one chunk.
  struct Block {
    ValueId key, value, mask;
  };

  // The device's own two chunks meet each other; of every other device's the late queries see its early keys, and besides
  // these, where that device stands before this one, the early queries do, else the late queries see its late keys.
  void balanced(KeyRing& ring, const std::vector<ValueId>& pieces, std::vector<ValueId>& results) {
    std::vector<int64_t> dims = {kSequence, kSequence, kSequence};
    if (pieces.size() > 3) dims.push_back(static_cast<int64_t>(op_.typeOf(pieces[3]).rank()) - 1);
    const std::vector<Chunks> own = ring.toChunks(pieces, dims);
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
    auto blockOf = [&](RingWriter& w, std::span<const ValueId> block, ValueId source, bool late) {
      auto part = [&](size_t i) {
        const size_t at = (late ? half : 0) + i;
        return w.trimmed(block[at], like[at], dims[i + 1]);
      };
      const ValueId mask = half > 2 ? part(2) : mask_;
      return Block{part(0), part(1), maskOf(w, ring.chunkLimit(w, source, late), mask)};
    };
    auto first = [&](KeyRing::Step& s) {
      const ValueId here = w_.number(0);
      const Block early = blockOf(w_, s.block, ring.me(), false),
                  late = blockOf(w_, s.block, ring.me(), true);
      auto meet = [&](ValueId q, const Block& k, ValueId distance) {
        return weigh(w_, q, k.key, k.value, k.mask, distance);
      };
      const Weighed e = meet(query.early, early, here);
      const Weighed l = both(w_, meet(query.late, early, {}), meet(query.late, late, here));
      sums = listed(e);
      for (ValueId v : listed(l)) sums.push_back(v);
    };
    auto others = [&](KeyRing::Step& s) {
      RingWriter& w = s.w;
      const Block early = blockOf(w, s.block, s.source, false), late = blockOf(w, s.block, s.source, true);
      Weighed e = unlisted(std::span(s.sums).first(3)), l = unlisted(std::span(s.sums).subspan(3));
      l = both(w, l, weigh(w, query.late, early.key, early.value, early.mask, {}));
      auto either = [&](ValueId x, ValueId y) { return x.valid() ? w.select(s.before, x, y) : x; };
      const Weighed other = weigh(w, either(query.early, query.late), either(early.key, late.key),
                                  either(early.value, late.value), either(early.mask, late.mask), {});
      auto unless = [&](bool before) { // nothing where it belongs to the others
        auto pick = [&](ValueId x, double none) {
          const ValueId n = w.op.scalar(none, x);
          return before ? w.select(s.before, x, n) : w.select(s.before, n, x);
        };
        return Weighed{pick(other.greatest, -INFINITY), pick(other.sum, 0), pick(other.values, 0)};
      };
      e = both(w, e, unless(true)), l = both(w, l, unless(false));
      s.sums = listed(e);
      for (ValueId v : listed(l)) s.sums.push_back(v);
    };
    ring.run(std::move(travel), sums, {}, home, first, others);
    giveBack(ring, unlisted(std::span(sums).first(3)), unlisted(std::span(sums).subspan(3)), results);
  }
  void giveBack(KeyRing& ring, const Weighed& early, const Weighed& late, std::vector<ValueId>& results) {
    std::vector<ValueId> e, l;
    finish(early, e), finish(late, l);
    std::vector<Chunks> chunks;
    std::vector<int64_t> dims(e.size(), kSequence);
    std::vector<Type> types;
    for (size_t i = 0; i < e.size(); ++i)
      chunks.push_back({e[i], l[i]}), types.push_back(w_.m.types[op_.results[i]]);
    results = ring.toPieces(chunks, dims, types);
  }

  CutOp& op_;
  RingWriter w_;
  ValueId mask_, offset_;
  bool placed_ = false; // what a query sees depends on its place
};

} // namespace

bool cutAttention(CutOp& op, std::vector<ValueId>& results) { return AttentionCut(op).run(results); }

} // namespace dtc
