// attention_grad: the gradient of attention. A separate op, so that it can use a ring of keys as attention
// does. On one device it is decomposed into basic ops after `partition`.
#include "attention/AttentionParts.h"
#include "reduce/Merge.h"
#include <array>
#include <limits>

namespace dtc {

namespace {

// If queries are sharded, dk and dv are partial sums; if keys are, dq is. If both are sharded by the same
// axes, a ring is used.
bool gradRule(const OpQuery& q, Rule& rule) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const AttentionFactors f = attentionFactors(rule, a);
  auto sums = [&](uint16_t factor) {
    rule.factors[factor].reduce = PendingKind::Sum;
    if (factor != f.t) rule.factors[factor].kind = FactorKind::Reduce;
  };
  sums(f.s), sums(f.t);
  if (a.grouped()) sums(f.g);
  rule.factors[f.s].placed = q.boolAttr("causal") || q.intAttr("window") != 0;
  rule.factors[f.e].kind = FactorKind::Whole;
  rule.operands = {f.query, f.key, f.value, f.rows, f.rows, f.result};
  addAttentionMask(q, rule, f);
  rule.results = {f.query, f.key, f.value};
  return true;
}

bool gradInfer(const OpQuery& q, std::vector<TypeId>& results) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const Dim dims[] = {a.batch, a.heads, a.s, a.e};
  const DType dtype = q.type(0).dtype;
  const Type y{dtype, {dims, dims + 4}}, rows{accumulationType(dtype), {dims, dims + 3}};
  for (size_t i : {3, 4})
    if (q.type(i) != rows)
      return reportShape(q, "takes lse as returned by attention, and delta of the same type");
  if (q.type(5) != y) return reportShape(q, "takes dy of the type of attention's y");
  for (size_t i = 0; i < 3; ++i) results.push_back(q.operandTypes[i]);
  return true;
}

// Computed for each pair of a query and a key.
struct PairParts {
  Expr p, ds; // the weights and the cotangents of the scores, in parts.dtype()
};

// `x` of each query, with its groups split, and 0 if the query attends to no key: its y and dy may be NaN,
// and must not be multiplied with the weight 0.
Expr ofSeeing(AttentionParts& parts, Expr lse, Expr x) {
  if (!parts.mayHideAll()) return x;
  return select(eq(parts.splitRows(lse), -std::numeric_limits<double>::infinity()), 0, x);
}

// `lse`, `delta` [batch, heads, s]; dy [batch, heads, s, e].
PairParts pairParts(AttentionParts& parts, Expr lse, Expr delta, Expr dy) {
  const DType wide = parts.wideType();
  const Expr query = parts.query().as(wide);
  const Expr x = parts.scores(parts.products(query, parts.key().as(wide)));
  Expr hidden; // the value for a row without keys is NaN
  if (parts.hides()) hidden = eq(x, -std::numeric_limits<double>::infinity());
  auto ofSeen = [&](Expr v) { return hidden.valid() ? select(hidden, 0, v) : v; };
  const Expr p = ofSeen(exp(x - parts.splitRows(lse)));
  const Expr cotangent = parts.splitResult(dy);
  const Expr dp = parts.products(cotangent, parts.value()).as(wide);
  const Expr ds = ofSeen(p * (dp - parts.splitRows(delta)));
  const Expr weights = parts.widened(p);
  return {weights, parts.widened(ds)};
}

// --- the gradient of an additive mask: ds, summed along the dims that the mask broadcasts ---

// Which of [batch, heads, s, t] the mask has.
std::array<bool, 4> dimsOfMask(const OpQuery& q) {
  const Type& mask = attentionMaskType(q);
  std::array<bool, 4> has = {};
  for (size_t k = 0; k < mask.rank(); ++k) has[4 - mask.rank() + k] = !isOneDim(mask.dims[k]);
  return has;
}

bool maskGradRule(const OpQuery& q, Rule& rule) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const AttentionFactors f = attentionFactors(rule, a);
  const std::array<bool, 4> has = dimsOfMask(q);
  const bool placed = q.boolAttr("causal") || q.intAttr("window") != 0;
  auto sums = [&](uint16_t factor) {
    rule.factors[factor].reduce = PendingKind::Sum, rule.factors[factor].kind = FactorKind::Reduce;
  };
  if (!has[0]) sums(f.b);
  if (!has[1]) sums(f.h);
  if (!has[1] && a.grouped()) sums(f.g);
  if (has[2])
    rule.factors[f.s].kind = placed ? FactorKind::Place : FactorKind::Pass;
  else
    placed ? void(rule.factors[f.s].kind = FactorKind::Whole) : sums(f.s);
  // There is one offset, for the queries; sharded keys would need another.
  rule.factors[f.t].kind = placed ? FactorKind::Whole : FactorKind::Pass;
  if (!placed && !has[3]) sums(f.t);
  rule.factors[f.e].kind = FactorKind::Whole;
  rule.operands = {f.query, f.key, f.value, f.rows, f.rows, f.result};
  const DimMap full[] = {plainDim(f.b), f.heads, plainDim(f.s), plainDim(f.t)};
  TensorMap mask;
  const size_t rank = attentionMaskType(q).rank();
  for (size_t d = 4 - rank; d < 4; ++d) mask.dims.push_back(has[d] ? full[d] : oneDim());
  rule.operands.push_back(mask);
  if (hasAttentionOffset(q)) rule.operands.emplace_back();
  rule.results = {std::move(mask)};
  return true;
}

bool maskGradInfer(const OpQuery& q, std::vector<TypeId>& results) {
  if (!gradInfer(q, results)) return false;
  results.clear();
  if (!hasAttentionMask(q) || !isFloat(attentionMaskType(q).dtype))
    return reportShape(q, "needs a float mask, which is additive");
  results.push_back(q.operandTypes[attentionOperands(q)]);
  return true;
}

bool maskGradDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  const PairParts pair = pairParts(parts, parts.operand(3), parts.operand(4), parts.operand(5));
  const Type mask = attentionMaskType(parts.opQuery());
  const std::array<bool, 4> has = dimsOfMask(parts.opQuery());
  std::vector<int64_t> repeated;
  for (int64_t d = 0; d < 4; ++d)
    if (!has[static_cast<size_t>(d)]) repeated.push_back(d);
  Expr x = parts.join(pair.ds, a.s, a.t);
  if (!repeated.empty()) x = sum(x, {.dims = repeated});
  if (x.dims() != mask.dims) x = reshape(x, mask.dims);
  results = {x.as(mask.dtype)};
  return true;
}

bool gradDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  const Expr lse = parts.operand(3), dy = parts.operand(5);
  const PairParts pair = pairParts(parts, lse, parts.operand(4), dy);
  auto transposed = [&](Expr x, Expr y) { return matmul(x, y, {.transpose_a = true}); };
  const Expr dq = parts.scaled(matmul(pair.ds, parts.key()));
  const Expr dk = parts.scaled(parts.overGroups(transposed(pair.ds, ofSeeing(parts, lse, parts.query()))));
  const Expr dv = parts.overGroups(transposed(pair.p, ofSeeing(parts, lse, parts.splitResult(dy))));
  results = {parts.narrowed(parts.join(dq, a.s, a.d)), parts.narrowed(dk), parts.narrowed(dv)};
  return true;
}

} // namespace

// Σ dy y of each row, minus the cotangent of its log-sum-exp: subtracted from every dp of the row.
static Expr deltaOf(Builder& b, OpId op, std::span<const ValueId> dy) {
  Module& m = b.module;
  const DType wide = m.typeOf(m.result(op, 1)).dtype;
  const Expr cotangent = Expr(b, dy[0]).as(wide);
  const Expr delta = sum(cotangent * Expr(b, m.result(op, 0)).as(wide), {.dims = {-1}});
  const OpId made = m.definingOp(dy[1]); // zeros if its gradient is not requested
  const bool none = made.valid() && std::string_view(m.record(made).name) == "constant";
  return none ? delta : delta - dy[1];
}

bool attentionGradient(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const Expr lse(b, m.result(op, 1)), delta = deltaOf(b, op, dy), q(b, m.operand(op, 0));
  const ValueId k = m.operand(op, 1), v = m.operand(op, 2);
  const bool masked = m[op].numOperands > 3; // the full sequence has no offset
  const ValueId mask = masked ? m.operand(op, 3) : ValueId();
  const AttrId causal = m.attr(op, "causal"), scale = m.attr(op, "scale"), window = m.attr(op, "window");
  const auto grads = attention_grad(
      q, k, v, lse, delta, dy[0],
      {.mask = mask, .causal = causal, .scale = scale, .window = window, .ring = m.attr(op, "ring")});
  dx.assign(grads.begin(), grads.end());
  if (!masked) return true;
  const bool added = isFloat(m.typeOf(mask).dtype);
  if (!added) {
    dx.emplace_back();
    return true;
  }
  dx.push_back(attention_grad_mask(q, k, v, lse, delta, dy[0], mask,
                                   {.causal = causal, .scale = scale, .window = window}));
  return true;
}

// Whether lib/Kernel/match/AttentionGradient.cpp supports it as one kernel: static head sizes of at most 1
// KiB in the accumulation dtype, as for attention itself (lib/Passes/split/Decompose.cpp).
static bool isOneKernel(const OpQuery& q) {
  const int64_t limit = 1024 / dtypeBytes(accumulationType(q.type(0).dtype));
  for (size_t i : {0, 2}) {
    const Dim size = q.type(i).dims[3];
    if (!size.isStatic() || size.value() == 0 || size.value() > limit) return false;
  }
  return true;
}

// The matmuls of the same kernel, for a mask that is the same for all queries: sums are along batch and
// heads.
static bool isOneMaskKernel(const OpQuery& q) {
  const std::array<bool, 4> has = dimsOfMask(q);
  return isOneKernel(q) && has[2] && has[3];
}

static void addAttentionGradMaskOp(OpRegistry& ops) {
  OpRecord& grad =
      ops.add({.name = "attention_grad_mask",
               .family = "attention",
               .summary = "the gradient of an additive attention mask: the cotangents of the scores, summed "
                          "along the dims that the mask broadcasts"});
  grad.operands = "q, k, v, lse, delta, dy, mask, offset?";
  grad.operandTypes = "T, T, T, any, any, T, any, i32";
  grad.literal = OpRecord::LiteralType::Exponent;
  grad.results = "dmask";
  grad.operandClasses = kFloats;
  grad.attrs = {
      {"causal", AttrType::Bool, "false", "query i attends to keys 0 … i"},
      {"scale", AttrType::Float, "", "default: 1/sqrt(dim)"},
      {"window", AttrType::Int, "0", "sliding window: attend only to keys nearer than this; 0: all"}};
  grad.rule = maskGradRule;
  grad.infer = maskGradInfer;
  grad.eval = attentionGradMaskEval;
  grad.decompose = maskGradDecompose;
  grad.through = {linear(0b110000), linear(0b10100)}; // and affine in each of v, delta and dy
  for (uint32_t operands : {0b100, 0b10000, 0b100000})
    grad.through.push_back({ThroughRow::Linear, operands, false, ~0u, kindBit(PendingKind::Avg)});
  grad.lowering = Lowering::Decompose;
  grad.offsetOperand = 7;
  grad.derive = [](const OpQuery& q, std::string_view name) -> std::optional<double> {
    if (name == "one kernel") return isOneMaskKernel(q) ? 1 : 0;
    return name == "flops per point" ? attentionFlops(q, 1, 1) : std::nullopt;
  };
  grad.samples =
      "T[2, 2, 3, 4], T[2, 2, 5, 4], T[2, 2, 5, 3], T[2, 2, 3], T[2, 2, 3], T[2, 2, 3, 3], T[2, 3, 5]\n"
      "T[2, 4, 5, 2], T[2, 2, 5, 2], T[2, 2, 5, 3], T[2, 4, 5], T[2, 4, 5], T[2, 4, 5, 3], T[5, 5] {causal = "
      "true}\n"
      "T[1, 2, 3, 2], T[1, 2, 7, 2], T[1, 2, 7, 2], T[1, 2, 3], T[1, 2, 3], T[1, 2, 3, 2], T[1, 1, 1, "
      "7] {scale = 0.5}\n"
      "T[1, 2, 3, 2], T[1, 2, 7, 2], T[1, 2, 7, 2], f32[1, 2, 3], f32[1, 2, 3], T[1, 2, 3, 2], f32[3, 7]\n"
      "T[2, 2, 7, 2], T[2, 1, 7, 2], T[2, 1, 7, 3], T[2, 2, 7], T[2, 2, 7], T[2, 2, 7, 3], T[2, 1, 7, 7] "
      "{window = 3, scale = 0.1}";
}

void addAttentionGradOp(OpRegistry& ops) {
  addAttentionGradMaskOp(ops);
  OpRecord& grad =
      ops.add({.name = "attention_grad",
               .family = "attention",
               .summary = "the gradient of attention, from its lse, the cotangent dy of y, and delta, the "
                          "sum of dy * y of each row"});
  grad.operands = "q, k, v, lse, delta, dy, mask?, offset?";
  grad.operandTypes = "T, T, T, any, any, T, any, i32";
  grad.literal = OpRecord::LiteralType::Exponent; // a mask or an offset may be absent
  grad.results = "dq, dk, dv";
  grad.operandClasses = kFloats;
  grad.attrs = {
      {"causal", AttrType::Bool, "false", "query i attends to keys 0 … i"},
      {"scale", AttrType::Float, "", "default: 1/sqrt(dim)"},
      {"window", AttrType::Int, "0", "sliding window: attend only to keys nearer than this; 0: all"},
      {"ring", AttrType::String, "priced", "as in attention"}};
  grad.rule = gradRule;
  grad.infer = gradInfer;
  grad.eval = attentionGradEval;
  grad.decompose = gradDecompose;
  grad.shard = shardAttentionGrad;
  grad.through = {linear(0b110000)}; // and affine in each of v, delta and dy
  for (uint32_t operands : {0b100, 0b10000, 0b100000, 0b10100})
    grad.through.push_back({ThroughRow::Linear, operands, false, ~0u, kindBit(PendingKind::Avg)});
  grad.lowering = Lowering::Decompose;
  grad.offsetOperand = 6;
  grad.derive = [](const OpQuery& q, std::string_view name) -> std::optional<double> {
    if (name == "one kernel") return isOneKernel(q) ? 1 : 0;
    if (name == "exchange") return attentionExchange(q);
    return name == "flops per point" ? attentionFlops(q, 3, 2) : std::nullopt;
  };
  grad.samples =
      "T[2, 2, 3, 4], T[2, 2, 5, 4], T[2, 2, 5, 3], T[2, 2, 3], T[2, 2, 3], T[2, 2, 3, 3]\n"
      "T[1, 4, 5, 2], T[1, 2, 5, 2], T[1, 2, 5, 3], T[1, 4, 5], T[1, 4, 5], T[1, 4, 5, 3] {causal = true}\n"
      "T[1, 2, 3, 2], T[1, 2, 7, 2], T[1, 2, 7, 2], f32[1, 2, 3], f32[1, 2, 3], T[1, 2, 3, 2], bool[1, 1, 1, "
      "7] "
      "{window = 2, scale = 0.5}\n"
      "T[1, 2, 7, 2], T[1, 1, 7, 2], T[1, 1, 7, 3], T[1, 2, 7], T[1, 2, 7], T[1, 2, 7, 3], bool[7] "
      "{causal = true, scale = 0.1, ring = \"balanced\"}";
}

} // namespace dtc
