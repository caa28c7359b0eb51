// attention with its keys and values cut along their sequence. Each device weighs the values of its own keys, with the greatest
// score and the sum of exponentials of each query beside them; those merge as softmax's sums do. Where the queries are not cut by
// the same axes, one exchange of these merges them. Where they are, the queries stay and the keys go round: Liu, Zaharia and
// Abbeel, Ring Attention with Blockwise Transformers (2023); step j has the keys of the device j places before, in the order of
// the devices, and under a causal mask the steps that see nothing are computed and count for nothing.
#include "Merge.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include <cmath>

namespace dtc {

namespace {

constexpr int64_t kLongestRing = 64; // steps that are written out
constexpr int64_t kSequence = 2;     // the dim of q, k, v

// Of the keys seen so far, for each query: the greatest score, the sum of exp(score - greatest) and of the values so weighed.
struct Weighed {
  ValueId greatest, sum, values;
};

// A block of keys and values; `size`, where valid: only that many of its rows are keys.
struct Block {
  ValueId key, value, offset, size;
};

class AttentionCut {
public:
  explicit AttentionCut(CutOp& op) : op_(op), b_(op.b), m_(op.b.module) {}

  [[nodiscard]] bool run(std::vector<ValueId>& results) {
    if (!prepare()) return false;
    const CutFactor &queries = op_.operandCut(0, kSequence), &keys = op_.operandCut(1, kSequence);
    const bool ring = queries.cut() && queries.axes == keys.axes;
    if (ring && !ringIsPossible(keys.devices)) return false;
    const Block own{
        op_.operands[1], op_.operands[2], op_.pieceOffset(op_.whole.type(1).dims[kSequence], keys.axes), {}};
    const Weighed all = ring ? goRound(own, keys) : merged(weigh(own));
    ValueId y = div(all.values, all.sum);
    if (grouped_) y = reshape(y, op_.b.module.types[op_.results[0]].dims);
    results.push_back(op_.convert(y, op_.dtypeOf(op_.operands[0])));
    return true;
  }

private:
  ValueId add(ValueId x, ValueId y) { return b_.value("add", {x, y}); }
  ValueId sub(ValueId x, ValueId y) { return b_.value("sub", {x, y}); }
  ValueId mul(ValueId x, ValueId y) { return b_.value("mul", {x, y}); }
  ValueId div(ValueId x, ValueId y) { return b_.value("div", {x, y}); }
  ValueId max(ValueId x, ValueId y) { return b_.value("max", {x, y}); }
  ValueId exp(ValueId x) { return b_.value("exp", {x}); }
  ValueId number(int64_t v) { return b_.literal(static_cast<double>(v), DType::I32); }
  ValueId reshape(ValueId x, const std::vector<Dim>& dims) {
    return b_.value("reshape", {x}, {{"shape", sizesAttr(m_, dims)}});
  }
  // exp(-inf - -inf) is no number: of no key the shift is 0.
  ValueId shiftOf(ValueId greatest) {
    const ValueId none = b_.value("eq", {greatest, op_.scalar(-INFINITY, greatest)});
    return b_.value("select", {none, op_.scalar(0, greatest), greatest});
  }

  // The queries as the keys of their heads meet them: [batch, heads, s, d] or [batch, kv heads, groups, s, d].
  bool prepare() {
    const Type q = op_.typeOf(op_.operands[0]), k = op_.typeOf(op_.operands[1]);
    const OpQuery& whole = op_.whole;
    if (!whole.type(0).dims[3].isStatic()) return false;
    grouped_ = !(whole.type(0).dims[1] == whole.type(1).dims[1]);
    if (grouped_) {
      const auto groups = m_.dims.divExact(q.dims[1], k.dims[1]);
      if (!groups) return false;
      heads_ = {k.dims[1], *groups};
    }
    const size_t behind = whole.operandTypes.size();
    auto isOffset = [&](size_t i) { return whole.type(i).dtype == DType::I32 && whole.type(i).rank() == 0; };
    if (behind > 3 && !isOffset(3)) mask_ = op_.operands[3];
    if (behind > 3 && isOffset(behind - 1)) offset_ = op_.operands[behind - 1];
    if (const CutFactor& s = op_.operandCut(0, kSequence); s.cut()) {
      const ValueId own = op_.pieceOffset(whole.type(0).dims[kSequence], s.axes);
      offset_ = offset_.valid() ? add(own, offset_) : own;
    }
    if (!offset_.valid()) offset_ = number(0);
    query_ = op_.wide(op_.operands[0]);
    if (grouped_) query_ = reshape(query_, {q.dims[0], heads_[0], heads_[1], q.dims[2], q.dims[3]});
    scale_ = whole.rawAttr("scale").valid()
                 ? whole.floatAttr("scale")
                 : 1 / std::sqrt(static_cast<double>(whole.type(0).dims[3].value()));
    return true;
  }

  // The offsets of the pieces are computed in i32.
  [[nodiscard]] bool ringIsPossible(int64_t devices) const {
    const Dim t = op_.whole.type(1).dims[kSequence];
    return t.isStatic() && devices <= kLongestRing && t.value() <= INT32_MAX / (devices + 1);
  }

  // --- the keys of one block ---

  ValueId counted(int64_t dim, Dim size, ValueId offset) { // offset, offset + 1, … as [size, 1] or [1, size]
    const Dim dims[] = {dim == 0 ? size : Dim(1), dim == 0 ? Dim(1) : size};
    TypeId type[] = {m_.tensorType(DType::I32, dims)};
    const ValueId in[] = {offset};
    return m_.result(b_.op("iota", in, {{"dim", b_.integer(dim)}}, type));
  }

  // bool[s, t], or invalid where every key is seen.
  ValueId visible(const Block& block) {
    const bool causal = op_.whole.boolAttr("causal");
    const int64_t window = op_.whole.intAttr("window");
    const Dim keys = op_.typeOf(block.key).dims[kSequence];
    ValueId seen;
    auto also = [&](ValueId v) { seen = seen.valid() ? b_.value("and", {seen, v}) : v; };
    if (block.size.valid()) also(b_.value("lt", {counted(1, keys, number(0)), block.size}));
    if (!causal && window == 0) return seen;
    const ValueId rows = counted(0, op_.typeOf(op_.operands[0]).dims[kSequence], offset_);
    const ValueId columns = counted(1, keys, block.offset);
    if (causal) also(b_.value("ge", {rows, columns}));
    if (window != 0) {
      ValueId distance = sub(rows, columns);
      if (!causal) distance = b_.value("abs", {distance});
      also(b_.value("lt", {distance, number(window)}));
    }
    return seen;
  }

  // The mask with a dim for the groups, where it has one for the heads.
  ValueId mask() {
    ValueId mask = isFloat(op_.dtypeOf(mask_)) ? op_.wide(mask_) : mask_;
    std::vector<Dim> dims = op_.typeOf(mask).dims;
    if (!grouped_ || dims.size() < 3) return mask;
    const size_t heads = dims.size() - 3;
    const Type whole = op_.whole.type(3);
    const bool one = whole.dims[heads].isStatic() && whole.dims[heads].value() == 1;
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(heads) + 1, one ? Dim(1) : heads_[1]);
    dims[heads] = one ? Dim(1) : heads_[0];
    return reshape(mask, dims);
  }

  ValueId besideGroups(ValueId x) {
    const int64_t dim = 2;
    x = op_.wide(x);
    return grouped_ ? b_.value("expand_dims", {x}, {{"dims", b_.ints({&dim, 1})}}) : x;
  }

  Weighed weigh(const Block& block) {
    const int64_t last = -1;
    ValueId x = b_.value("matmul", {query_, besideGroups(block.key)}, {{"transpose_b", b_.boolean(true)}});
    x = mul(x, op_.scalar(scale_, x));
    const ValueId hidden = op_.scalar(-INFINITY, x);
    if (const ValueId seen = visible(block); seen.valid()) x = b_.value("select", {seen, x, hidden});
    if (mask_.valid())
      x = isFloat(op_.dtypeOf(mask_)) ? add(x, mask()) : b_.value("select", {mask(), x, hidden});
    const ValueId greatest = op_.over("max", x, {&last, 1});
    const ValueId p = exp(sub(x, shiftOf(greatest)));
    return {greatest, op_.over("sum", p, {&last, 1}), b_.value("matmul", {p, besideGroups(block.value)})};
  }

  // --- all devices' at once ---

  // Values and sums in one tensor; where the values' own dim is cut they stay apart.
  Weighed merged(const Weighed& own) {
    const Dim columns = op_.typeOf(own.values).dims.back();
    if (!columns.isStatic()) {
      const Weighed scaled = scaledToAll(own);
      return {
          {}, op_.allReduce(scaled.sum, PendingKind::Sum), op_.allReduce(scaled.values, PendingKind::Sum)};
    }
    if (!gatheredIsCheaper(own)) {
      const Weighed scaled = scaledToAll(own);
      const auto parts =
          apart(op_.allReduce(together({scaled.values, scaled.sum}), PendingKind::Sum), {columns.value(), 1});
      return {{}, parts[1], parts[0]};
    }
    const int64_t first = 0;
    const auto all =
        apart(op_.gatherAll(together({own.values, own.sum, own.greatest})), {columns.value(), 1, 1});
    const ValueId weight = exp(sub(all[2], shiftOf(op_.over("max", all[2], {&first, 1}))));
    auto total = [&](ValueId v) { return op_.over("sum", mul(v, weight), {&first, 1}, false); };
    return {{}, total(all[1]), total(all[0])};
  }
  // By the greatest score of all devices.
  Weighed scaledToAll(const Weighed& own) {
    const ValueId greatest = op_.allReduce(own.greatest, PendingKind::Max);
    const ValueId weight = exp(sub(own.greatest, shiftOf(greatest)));
    return {greatest, mul(own.sum, weight), mul(own.values, weight)};
  }
  ValueId together(std::initializer_list<ValueId> parts) {
    return b_.value("concat", parts, {{"dim", b_.integer(-1)}});
  }
  std::vector<ValueId> apart(ValueId v, const std::vector<int64_t>& sizes) {
    const ValueId in[] = {v};
    const OpId split = b_.op("split", in, {{"sizes", b_.ints(sizes)}, {"dim", b_.integer(-1)}});
    std::vector<ValueId> parts;
    for (uint32_t i = 0; i < sizes.size(); ++i) parts.push_back(m_.result(split, i));
    return parts;
  }
  // One gather of all against a maximum and then a sum.
  bool gatheredIsCheaper(const Weighed& own) {
    const int64_t n = op_.devices();
    auto bytes = [&](ValueId v) { return largestBytes(m_, m_[v].type, op_.mesh()).value_or(0); };
    const int64_t values = bytes(own.values), sums = bytes(own.sum);
    auto seconds = [&](StepKind kind, int64_t in, int64_t out) {
      return priceOf(kind, op_.axes(), in, out, op_.mesh(), NominalMachine{}).seconds;
    };
    const int64_t all = values + 2 * sums;
    return seconds(StepKind::AllGather, all, all * n) <=
           seconds(StepKind::AllReduce, sums, sums) +
               seconds(StepKind::AllReduce, values + sums, values + sums);
  }

  // --- round the ring ---

  Weighed goRound(const Block& own, const CutFactor& keys) {
    const int64_t n = keys.devices, t = op_.whole.type(1).dims[kSequence].value();
    std::array<ValueId, 2> travel = {filled(own.key), filled(own.value)};
    const ValueId me = op_.index(keys.axes);
    auto begin = [&](ValueId i) { return b_.value("floor_div", {mul(i, number(t)), number(n)}); };
    Weighed all;
    Block block = own;
    for (int64_t step = 0; step < n; ++step) {
      const bool last = step + 1 == n; // the next block is on its way while this one is worked on
      if (!last) travel = sentOn(travel, keys);
      const Weighed here = weigh(block);
      all = step == 0 ? here : both(all, here);
      if (last) break;
      const ValueId source = b_.value("mod", {sub(me, number(step + 1)), number(n)});
      block = {trimmed(travel[0], own.key), trimmed(travel[1], own.value), begin(source), {}};
      if (t % n != 0) block.size = sub(begin(add(source, number(1))), block.offset);
    }
    return all;
  }

  Weighed both(const Weighed& x, const Weighed& y) {
    const ValueId greatest = max(x.greatest, y.greatest), shift = shiftOf(greatest);
    const ValueId u = exp(sub(x.greatest, shift)), v = exp(sub(y.greatest, shift));
    return {greatest, add(mul(x.sum, u), mul(y.sum, v)), add(mul(x.values, u), mul(y.values, v))};
  }

  std::array<ValueId, 2> sentOn(const std::array<ValueId, 2>& travel, const CutFactor& keys) {
    Attr sends;
    sends.kind = Attr::List;
    for (int64_t operand : {0, 1})
      for (int64_t i = 0; i < keys.devices; ++i)
        sends.list.push_back(b_.ints(std::array{operand, i, (i + 1) % keys.devices}));
    const OpId sent = b_.op(
        "p2p", travel, {{"sends", m_.attrs.intern(std::move(sends))}, {"axes", axesAttr(m_, keys.axes)}});
    return {m_.result(sent, 0), m_.result(sent, 1)};
  }

  // Messages have one size: uneven pieces travel filled to that of the largest. Along other dims they are trimmed again.
  [[nodiscard]] bool isCut(Dim d) const { return !d.isStatic() && !m_.dims.dynamic(d).cut.empty(); }
  ValueId filled(ValueId v) {
    for (size_t d = 0; d < op_.typeOf(v).rank(); ++d)
      if (isCut(op_.typeOf(v).dims[d]))
        v = b_.value("fill_piece", {v}, {{"dim", b_.integer(static_cast<int64_t>(d))}});
    return v;
  }
  ValueId trimmed(ValueId v, ValueId like) {
    const Type type = op_.typeOf(like);
    for (size_t d = 0; d < type.rank(); ++d) {
      if (d == kSequence || !isCut(type.dims[d])) continue;
      const std::vector<AxisRef> cut = m_.dims.dynamic(type.dims[d]).cut;
      v = b_.value("trim_piece", {v},
                   {{"dim", b_.integer(static_cast<int64_t>(d))},
                    {"size", sizeAttr(m_, m_.dims.uncut(type.dims[d]))},
                    {"axes", axesAttr(m_, cut)}});
    }
    return v;
  }

  CutOp& op_;
  Builder& b_;
  Module& m_;
  bool grouped_ = false;
  std::array<Dim, 2> heads_ = {Dim(1), Dim(1)}; // here: kv heads, queries' heads to each
  ValueId query_, mask_, offset_;
  double scale_ = 1;
};

} // namespace

bool cutAttention(CutOp& op, std::vector<ValueId>& results) { return AttentionCut(op).run(results); }

} // namespace dtc
