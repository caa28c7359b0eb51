// attention and rope. attention becomes one kernel that loops over the keys (lib/Kernel/match/Attention.h).
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

// --- rope ---

bool ropeRule(const OpQuery& q, Rule& rule) {
  if (!ruleFromText(q, "[.. s d], [.. s] -> [.. s d]; d: whole", rule)) return false;
  Dim d = q.type(0).dims.back();
  if (d.isStatic() && d.value() % 2 == 0) return true;
  return reportShape(q, "rotates pairs of the last dim, which must be even, but it is " + dimText(q, d));
}

// Element j of a row is rotated with its partner: (i, i + d/2), or (2i, 2i + 1) if interleaved. The angle is
// position * base^(-2i/d).
template <class T>
bool ropeIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor &x = *in[0], &positions = *in[1];
  int64_t d = x.shape().back(), half = d / 2;
  bool interleaved = q.boolAttr("interleaved");
  const T base = q.floatAttr("base");
  std::vector<int64_t> rows(x.shape().begin(), x.shape().end() - 1), strides = positions.strides();
  size_t lead = rows.size() - positions.rank();
  forEachElement(rows, [&](std::span<const int64_t> at, int64_t r) {
    int64_t p = 0;
    for (size_t k = 0; k < positions.rank(); ++k)
      if (positions.shape()[k] != 1) p += strides[k] * at[lead + k];
    const T position = positions.getFloat(p);
    for (int64_t i = 0; i < half; ++i) {
      int64_t a = r * d + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + half;
      const T angle = position * std::pow(base, T(-2) * static_cast<T>(i) / static_cast<T>(d));
      const T u = x.getFloat(a), v = x.getFloat(b), c = std::cos(angle), s = std::sin(angle);
      out[0]->setFloat(a, static_cast<double>(u * c - v * s));
      out[0]->setFloat(b, static_cast<double>(v * c + u * s));
    }
  });
  return true;
}

bool ropeEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? ropeIn<long double>(q, in, out) : ropeIn<double>(q, in, out);
}

// The angle is computed in f64: for a large position, f32 would lose the digits that the sine needs.
uint32_t ropeElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const Type x = q.type(0), positions = q.type(1);
  int64_t d = x.dims.back().value(), half = d / 2;
  bool interleaved = q.boolAttr("interleaved");
  size_t rank = x.rank(), lead = rank - 1 - positions.rank();
  std::vector<ElementNode> at = ownCoordinates(b, rank), where;
  for (size_t k = 0; k < positions.rank(); ++k)
    where.push_back(isOneDim(positions.dims[k]) && !isOneDim(x.dims[lead + k]) ? b.index(0) : at[lead + k]);
  ElementNode j = at[rank - 1];
  ElementNode pair = interleaved ? b.floorDiv(j, 2) : b.mod(j, half),
              side = interleaved ? b.mod(j, 2) : b.floorDiv(j, half);
  std::vector<ElementNode> other = at;
  int64_t step = interleaved ? 1 : half; // the partner is `step` after on side 0 and `step` before on side 1
  other[rank - 1] = b.add(b.sub(j, b.mul(side, 2 * step)), b.index(step));
  ElementNode exponent =
      b.call("mul", {b.convert(pair, DType::F64), b.number(-2.0 / static_cast<double>(d), DType::F64)});
  ElementNode rate =
      b.call("exp", {b.call("mul", {exponent, b.number(std::log(q.floatAttr("base")), DType::F64)})});
  ElementNode angle = b.call("mul", {b.convert(b.load(1, where, true), DType::F64), rate});
  ElementNode cosine = b.convert(b.call("cos", {angle}), x.dtype),
              sine = b.convert(b.call("sin", {angle}), x.dtype);
  ElementNode rotated = b.call("mul", {b.load(0, other, true), sine});
  ElementNode first = b.call("eq", {side, b.index(0)});
  return b.call("add", {b.call("mul", {b.load(0, at, true), cosine}),
                        b.call("select", {first, b.call("neg", {rotated}), rotated})});
}

// The inverse rotation: by the angles of the negated positions.
bool ropeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  Expr positions(b, b.module.operand(op, 1));
  if (isUnsignedInt(q.type(1).dtype)) positions = convert(positions, DType::I32);
  dx.resize(2);
  positions = -positions;
  dx[0] = rope(Expr(b, dy[0]), positions,
               {.base = q.floatAttr("base"), .interleaved = q.boolAttr("interleaved")});
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
       "ring schedule for causal attention with sharded queries and keys: ordered, balanced, or the faster "
       "one"},
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
    return name == "flops per point" ? attentionFlops(q, 1, 1) : std::nullopt;
  };
  attention.samples =
      "T[2, 2, 3, 4], T[2, 2, 5, 4], T[2, 2, 5, 3]\n"
      "T[2, 4, 3, 2], T[2, 2, 3, 2], T[2, 2, 3, 2] {causal = true, scale = 0.5}\n"
      "T[1, 2, 3, 2], T[1, 2, 4, 2], T[1, 2, 4, 2], T[2, 1, 4] {window = 2}\n"
      "T[2, 2, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], bool[3, 3]\n"
      "T[1, 4, 5, 2], T[1, 2, 7, 2], T[1, 2, 7, 3], bool[1, 1, 1, 7] {causal = true, lse = true}\n"
      "T[1, 2, 13, 2], T[1, 1, 13, 2], T[1, 1, 13, 3], T[13] {causal = true, ring = \"balanced\", lse = "
      "true}";
  addAttentionPartsOp(ops);
  addAttentionMergeOp(ops);
  addAttentionGradOp(ops);

  OpRecord& rope = ops.add(
      {.name = "rope",
       .family = "attention",
       .summary = "rotary position embedding: rotates pairs of the last dim by position * base^(-2i/dim)"});
  rope.operands = "x, positions";
  rope.operandTypes = "T, int";
  rope.operandClasses = kFloats;
  rope.attrs = {{"base", AttrType::Float, "10000.0"},
                {"interleaved", AttrType::Bool, "false", "pairs (2i, 2i+1) instead of (i, i + dim/2)"}};
  rope.rule = ropeRule;
  rope.eval = ropeEval;
  rope.element = ropeElement;
  rope.gradFn = ropeGrad;
  rope.through = {linear()};
  rope.flopsPerPoint = 8;
  rope.samples = "T[2, 5, 4], i32[5] in 0..9\nT[5, 6], i32[5] in 0..9 {interleaved = true, base = 100.0}\n"
                 "T[2, 3, 5, 2], i32[3, 5] in 0..9";
}

} // namespace dtc
