#pragma once
// What attention and its gradient share: the sizes that their operands must have, their rules' factors, and their parts in basic
// ops. Private to lib/Ops.
#include "ShapeParts.h"

namespace dtc {

// q [batch, heads, s, d], k [batch, kv heads, t, d], v [batch, kv heads, t, e], mask broadcast against [batch, heads, s, t].
struct AttentionShape {
  Dim batch, heads, kvHeads, s, t, d, e, groups; // heads = kvHeads * groups
  [[nodiscard]] bool grouped() const { return !(heads == kvHeads); }
};

// Of attention, attention_parts, and attention_grad and attention_grad_mask, which have lse, delta and dy behind v. False with a diagnostic where
// q, k, v and the mask do not fit.
[[nodiscard]] bool attentionShapeOf(const OpQuery&, AttentionShape&);

// The operands behind these: a mask, and where the piece of the queries begins, a number of its own type.
[[nodiscard]] size_t attentionOperands(const OpQuery&);        // the number of the mask
[[nodiscard]] bool hasAttentionOffset(const OpQuery&);         // it is the last operand
[[nodiscard]] bool hasAttentionMask(const OpQuery&);           // it is operand attentionOperands()
[[nodiscard]] const Type& attentionMaskType(const OpQuery& q); // where there is one
// OpRecord::derive: "flops per point", of the rule's points (which count d and e both), of as many products of each pair.
[[nodiscard]] std::optional<double> attentionFlops(const OpQuery&, double productsOfD, double productsOfE);
[[nodiscard]] double attentionScale(const OpQuery&); // of a head size that is a number, or said

// The factors of both rules; how they are cut differs.
struct AttentionFactors {
  uint16_t b, h, g, s, t, d, e; // g: where heads are grouped
  DimMap heads;
  TensorMap query, key, value, result, rows; // rows: [batch, heads, s]
};
[[nodiscard]] AttentionFactors attentionFactors(Rule&, const AttentionShape&);
// The mask's dims; that of the keys where it goes round with them. Says on factor t whether keys may go round past the queries.
void addAttentionMask(const OpQuery&, Rule&, const AttentionFactors&);

[[nodiscard]] bool attentionEval(const OpQuery&, std::span<const Tensor* const> operands,
                                 std::span<Tensor* const> results);
[[nodiscard]] bool attentionGradEval(const OpQuery&, std::span<const Tensor* const> operands,
                                     std::span<Tensor* const> results);
[[nodiscard]] bool attentionGradMaskEval(const OpQuery&, std::span<const Tensor* const> operands,
                                         std::span<Tensor* const> results);

struct AttentionVisible { // which keys a query sees, counted from the start of both
  bool causal;
  int64_t window;
  explicit AttentionVisible(const OpQuery& q) : causal(q.boolAttr("causal")), window(q.intAttr("window")) {}
  [[nodiscard]] bool operator()(int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    return window == 0 || (i - j < window && j - i < window);
  }
};

// In basic ops, with grouped heads as a dim of their own beside the kv heads.
class AttentionParts {
public:
  // `Joined`: the queries of all heads of a group are the rows of one, group by group: shape() is of that. Their number must be known, and
  // a mask must not tell them apart.
  enum class Heads : uint8_t { Apart, Joined };
  AttentionParts(Builder& b, OpId op, Heads heads = Heads::Apart);

  ValueId query() { return besideHeads(0, a_.d); }
  ValueId key() { return besideGroups(1); }
  ValueId value() { return besideGroups(2); }
  // Operand `i` [batch, heads, s, columns], with the groups apart.
  ValueId besideHeads(uint32_t i, Dim columns);
  ValueId split(ValueId x, Dim rows, Dim columns);
  ValueId splitResult(ValueId x) { return split(widened(x), a_.s, a_.e); } // shaped as the result is
  // [batch, kv heads, groups, rows, columns] back to [batch, heads, rows, columns].
  ValueId join(ValueId x, Dim rows, Dim columns);
  ValueId splitRows(ValueId x);  // [batch, heads, s] to a last dim of 1, groups apart
  ValueId overGroups(ValueId x); // of k or v: the sum over the groups that share a head
  ValueId scaled(ValueId x) { return b_.value("mul", {x, b_.literal(attentionScale(q_), typeOf(x).dtype)}); }
  // f8 has neither the range of scores nor, in one form, the infinity that hides them: its parts are in f32. And so is everything
  // where lse is given, which is not rounded to narrow types.
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] DType wideType() const { return accumulationType(dtype()); } // of sums
  ValueId as(ValueId x, DType to);
  ValueId widened(ValueId x) { return as(x, dtype()); }
  ValueId narrowed(ValueId x) { return as(x, q_.type(0).dtype); }

  [[nodiscard]] bool hides() const { // are there keys that some query does not see?
    return q_.boolAttr("causal") || q_.intAttr("window") != 0 || hasAttentionMask(q_);
  }
  // May a query see no key at all? Where one does not know, it may.
  [[nodiscard]] bool mayHideAll() const {
    if (hasAttentionMask(q_) || hasAttentionOffset(q_)) return true;
    const bool shorter = a_.s.isStatic() && a_.t.isStatic() && a_.s.value() <= a_.t.value();
    return q_.intAttr("window") != 0 && !shorter;
  }
  // The scaled, masked scores of these products of queries and keys.
  ValueId scores(ValueId products);
  ValueId products(ValueId query, ValueId key) {
    return b_.value("matmul", {query, key}, {{"transpose_b", b_.boolean(true)}});
  }
  // log of the sum of exp(scores) over the keys, [batch, heads, s], in wideType(); -inf of no key.
  ValueId logSumExp(ValueId scores);
  ValueId logSumExpOf(ValueId scores); // the same, shaped as the scores with one key
  [[nodiscard]] const AttentionShape& shape() const { return a_; }
  [[nodiscard]] const OpQuery& whole() const { return q_; }

private:
  [[nodiscard]] const Type& typeOf(ValueId v) const { return b_.module.typeOf(v); }
  ValueId reshape(ValueId x, std::initializer_list<Dim> dims);
  ValueId besideGroups(uint32_t i);
  ValueId iota(int64_t dim);
  ValueId visible(); // bool[s, t], or invalid where every key is seen
  ValueId maskValue(DType);

  Builder& b_;
  OpId op_;
  Diagnostics none_;
  OpQuery q_;
  AttentionShape a_;
  Dim ownRows_; // of one head; 0: heads are apart
};

void addAttentionGradOp(OpRegistry&); // of the family `attention`
// The gradient of attention, from its log-sum-exp: attention_grad, and attention_grad_mask of an added mask.
[[nodiscard]] bool attentionGradient(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);

} // namespace dtc
