#pragma once
// Shared by attention and its gradient: operand checks, the factors of their rules, and their decomposition
// into basic ops.
#include "record/Precision.h"
#include "record/ShapeParts.h"

namespace dtc {

// q [batch, heads, s, d], k [batch, kv heads, t, d], v [batch, kv heads, t, e], mask broadcast against
// [batch, heads, s, t].
struct AttentionShape {
  Dim batch, heads, kvHeads, s, t, d, e, groups; // heads = kvHeads * groups
  [[nodiscard]] bool grouped() const { return !(heads == kvHeads); }
};

// For attention, attention_parts, and attention_grad and attention_grad_mask, which have lse, delta and dy
// after v. False, with a diagnostic, if q, k, v and the mask do not match.
[[nodiscard]] bool attentionShapeOf(const OpQuery&, AttentionShape&);

// The operands after these: a mask, and the offset of the query shard, which has its own scalar type.
[[nodiscard]] size_t attentionOperands(const OpQuery&);        // the operand number of the mask
[[nodiscard]] bool hasAttentionOffset(const OpQuery&);         // it is the last operand
[[nodiscard]] bool hasAttentionMask(const OpQuery&);           // it is operand attentionOperands()
[[nodiscard]] const Type& attentionMaskType(const OpQuery& q); // if there is one
// OpRecord::derive: "flops per point" of the rule's points (which count d and e both), for this many matmuls
// over each pair.
// `derive` of "exchange": what `ring` prescribes (0: the price decides; 1: a ring; 2: gathered keys; 3: swapped axes).
[[nodiscard]] double attentionExchange(const OpQuery&);
[[nodiscard]] std::optional<double> attentionFlops(const OpQuery&, double productsOfD, double productsOfE);
[[nodiscard]] double attentionScale(const OpQuery&); // for a static head size, or from the attribute

// The factors of both rules; the ops differ in how they are sharded.
struct AttentionFactors {
  uint16_t b, h, g, s, t, d, e; // g: for grouped heads
  DimMap heads;
  TensorMap query, key, value, result, rows; // rows: [batch, heads, s]
};
[[nodiscard]] AttentionFactors attentionFactors(Rule&, const AttentionShape&);
// The dims of the mask, including that of the keys if it circulates with them. Sets on factor t whether keys
// may circulate past the queries.
void addAttentionMask(const OpQuery&, Rule&, const AttentionFactors&);

[[nodiscard]] bool attentionEval(const OpQuery&, std::span<const Tensor* const> operands,
                                 std::span<Tensor* const> results);
[[nodiscard]] bool attentionGradEval(const OpQuery&, std::span<const Tensor* const> operands,
                                     std::span<Tensor* const> results);
[[nodiscard]] bool attentionGradMaskEval(const OpQuery&, std::span<const Tensor* const> operands,
                                         std::span<Tensor* const> results);

struct AttentionVisible { // the visible keys of a query, relative to the start of both
  bool causal;
  int64_t window;
  explicit AttentionVisible(const OpQuery& q) : causal(q.boolAttr("causal")), window(q.intAttr("window")) {}
  [[nodiscard]] bool operator()(int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    return window == 0 || (i - j < window && j - i < window);
  }
};

// Basic ops, with grouped heads as a separate dim after the kv heads.
class AttentionParts {
public:
  // `Joined`: the queries of all heads of a group are the rows of one tensor, group by group, as in shape().
  // Their number must be static, and the mask must not distinguish them.
  enum class Heads : uint8_t { Apart, Joined };
  AttentionParts(Builder& b, OpId op, Heads heads = Heads::Apart);

  Expr operand(uint32_t i) { return {b_, b_.module.operand(op_, i)}; }
  Expr query() { return afterHeads(0, a_.d); }
  Expr key() { return afterGroups(1); }
  Expr value() { return afterGroups(2); }
  // Operand `i` [batch, heads, s, columns], with the groups split.
  Expr afterHeads(uint32_t i, Dim columns);
  Expr split(Expr x, Dim rows, Dim columns);
  Expr splitResult(Expr x) { return split(widened(x), a_.s, a_.e); } // of the result's shape
  // [batch, kv heads, groups, rows, columns] back to [batch, heads, rows, columns].
  Expr join(Expr x, Dim rows, Dim columns);
  Expr splitRows(Expr x);  // [batch, heads, s] to a last dim of 1, with groups split
  Expr overGroups(Expr x); // of k or v: the sum over the groups that share a head
  Expr scaled(Expr x) { return (withPrecision(x) * attentionScale(q_)).as(x.dtype()); }
  // f8 lacks the range of scores and, in one format, the infinity used for masking, so the intermediates are
  // f32. If lse is returned, everything is in f32, because lse is not rounded to narrow dtypes.
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] DType wideType() const { return accumulationType(dtype()); } // the accumulation dtype
  Expr widened(Expr x) { return x.as(dtype()); }
  Expr narrowed(Expr x) { return x.as(q_.type(0).dtype); }

  [[nodiscard]] bool hides() const { // whether some query does not see all keys
    return q_.boolAttr("causal") || q_.intAttr("window") != 0 || hasAttentionMask(q_);
  }
  // Whether a query may have no visible key; conservatively true.
  [[nodiscard]] bool mayHideAll() const {
    if (hasAttentionMask(q_) || hasAttentionOffset(q_)) return true;
    const bool shorter = a_.s.isStatic() && a_.t.isStatic() && a_.s.value() <= a_.t.value();
    return q_.intAttr("window") != 0 && !shorter;
  }
  // The scaled, masked scores of these matmuls of queries and keys.
  Expr scores(Expr products);
  Expr products(Expr query, Expr key) { return matmul(query, key, {.transpose_b = true}); }
  // The log-sum-exp of the scores over the keys, [batch, heads, s], in wideType(); -inf without keys.
  Expr logSumExp(Expr scores);
  Expr logSumExpOf(Expr scores); // the same, shaped as scores with one key
  [[nodiscard]] const AttentionShape& shape() const { return a_; }
  [[nodiscard]] const OpQuery& opQuery() const { return q_; }

private:
  Expr afterGroups(uint32_t i);
  Expr positionsAlong(int64_t dim); // i32[s, t]
  Expr visible();                   // bool[s, t], or invalid if all keys are visible
  Expr maskValue(DType);

  Builder& b_;
  OpId op_;
  Diagnostics none_;
  OpQuery q_;
  AttentionShape a_;
  Dim ownRows_; // of one head; 0: heads are separate
};

void addAttentionGradOp(OpRegistry&); // of the family `attention`
// The gradient of attention, from its log-sum-exp: attention_grad, and attention_grad_mask for an additive
// mask.
[[nodiscard]] bool attentionGradient(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);

} // namespace dtc
