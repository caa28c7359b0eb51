// attention becomes one kernel that loops over the keys (lib/Kernel/match/Attention.h).
// Its decomposition into matmul, masks and softmax is the specification of that kernel.
#include "attention/AttentionKeyParts.h"
#include "record/CarriedSum.h"
#include "reduce/Merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace {

// --- attention ---

// Batch and heads pass (grouped heads as (kv head, group)), as do the queries and v's last dim. If the
// visible keys depend on the query's position, the op gets the offset of its shard.
bool attentionRule(const OpQuery& q, Rule& rule) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const AttentionFactors f = attentionFactors(rule, a);
  if (q.boolAttr("causal") || q.intAttr("window") != 0) rule.factors[f.s].kind = FactorKind::Place;
  rule.operands = {f.query, f.key, f.value};
  addAttentionMask(q, rule, f);
  rule.results = {f.result};
  if (q.boolAttr("lse")) rule.results.push_back(f.rows);
  return true;
}

bool attentionInfer(const OpQuery& q, std::vector<TypeId>& results) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const Dim dims[] = {a.batch, a.heads, a.s, a.e};
  results.push_back(q.module->tensorType(q.type(0).dtype, dims));
  if (q.boolAttr("lse"))
    results.push_back(q.module->tensorType(accumulationType(q.type(0).dtype), std::span(dims).first(3)));
  return true;
}

bool attentionDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  const Expr query = parts.query();
  const Expr x = parts.scores(parts.products(query, parts.key()));
  const Expr p = softmax(x, {-1});
  results.push_back(parts.narrowed(parts.join(matmul(p, parts.value()), a.s, a.e)));
  if (parts.opQuery().boolAttr("lse")) results.push_back(parts.logSumExp(x));
  return true;
}

} // namespace

void addAttentionOps(OpRegistry& ops) {
  OpRecord& attention =
      ops.add({.name = "attention",
               .family = "attention",
               .summary = "softmax(scale * q kᵀ, masked) v; q, k, v [batch, heads, seq, dim]"});
  attention.operands = "q, k, v, mask?, offset?";
  attention.results = "y, lse?";
  attention.operandTypes = "T, T, T, any, i32";
  attention.literal = OpRecord::LiteralType::Exponent; // a mask or an offset may be absent
  attention.operandClasses = kFloats;
  attention.attrs = {
      {"causal", AttrType::Bool, "false", "query i attends to keys 0 … i"},
      {"scale", AttrType::Float, "", "default: 1/sqrt(dim)"},
      {"window", AttrType::Int, "0", "sliding window: attend only to keys nearer than this; 0: all"},
      {"ring", AttrType::String, "priced",
       "where queries and keys are sharded: a ring, ordered or (causal) balanced; gather: keys are gathered; "
       "heads: heads are sharded instead; priced: the cheapest"},
      {"lse", AttrType::Bool, "false",
       "also return the log-sum-exp of each row: [batch, heads, seq], -inf for a row without keys"}};
  attention.rule = attentionRule;
  attention.infer = attentionInfer;
  attention.eval = attentionEval;
  attention.decompose = attentionDecompose;
  attention.shard = shardAttention;
  attention.gradFn = attentionGradient;
  // Linear in v; lse does not depend on v.
  attention.through = {{ThroughRow::Linear, 0b100, false, 1u},
                       {ThroughRow::Linear, 0b100, false, 2u, kindBit(PendingKind::Avg)}};
  attention.lowering = Lowering::Rows;
  attention.offsetOperand = 3;
  attention.derive = [](const OpQuery& q, std::string_view name) -> std::optional<double> {
    if (name == "key parts") return attentionKeyParts(q);
    if (name == "exchange") return attentionExchange(q);
    return name == "flops per point" ? attentionFlops(q, 1, 1) : std::nullopt;
  };
  attention.samples =
      "T[2, 2, 3, 4], T[2, 2, 5, 4], T[2, 2, 5, 3]\n"
      "T[2, 4, 3, 2], T[2, 2, 3, 2], T[2, 2, 3, 2] {causal = true, scale = 0.5}\n"
      "T[1, 2, 3, 2], T[1, 2, 4, 2], T[1, 2, 4, 2], T[2, 1, 4] {window = 2}\n"
      "T[1, 2, 3, 2], T[1, 2, 4, 2], T[1, 2, 4, 2], f32[2, 1, 4] {window = 2}\n"
      "T[2, 2, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], bool[3, 3]\n"
      "T[1, 4, 5, 2], T[1, 2, 7, 2], T[1, 2, 7, 3], bool[1, 1, 1, 7] {causal = true, lse = true}\n"
      "T[1, 2, 13, 2], T[1, 1, 13, 2], T[1, 1, 13, 3], T[13] {causal = true, ring = \"balanced\", lse = "
      "true}";
  addAttentionPartsOp(ops);
  addAttentionMergeOp(ops);
  addAttentionGradOp(ops);
  addRopeOp(ops);
}

} // namespace dtc
