// attention_grad: the gradient of attention, an op of its own so that it may send keys round a ring as attention does. What it
// is made of on one device is basic ops, written after `partition`.
#include "AttentionParts.h"
#include "Merge.h"
#include <array>
#include <limits>

namespace dtc {

namespace {

// Where queries are cut, dk and dv are partial sums, and where keys are, dq is; cut by the same axes, keys go round.
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
    if (q.type(i) != rows) return reportShape(q, "takes lse as attention gives it, and delta alike");
  if (q.type(5) != y) return reportShape(q, "takes dy as attention gives y");
  for (size_t i = 0; i < 3; ++i) results.push_back(q.operandTypes[i]);
  return true;
}

// What is computed of each pair of a query and a key.
struct PairParts {
  ValueId p, ds; // the weights and the cotangents of the scores, in parts.dtype()
};

// `x` of each query, its groups apart, 0 where the query sees no key: that adds nothing to any key, and what is no number there (its y,
// and so its dy) is not to meet the weight 0 in a product.
ValueId ofSeeing(Builder& b, AttentionParts& parts, ValueId lse, ValueId x) {
  if (!parts.mayHideAll()) return x;
  const DType dtype = b.module.typeOf(x).dtype, wide = b.module.typeOf(lse).dtype;
  const ValueId none = b.literal(-std::numeric_limits<double>::infinity(), wide);
  return b.value("select", {b.value("eq", {parts.splitRows(lse), none}), b.literal(0, dtype), x});
}

// `lse`, `delta` [batch, heads, s]; dy [batch, heads, s, e].
PairParts pairParts(Builder& b, AttentionParts& parts, ValueId lse, ValueId delta, ValueId dy) {
  const DType wide = parts.wideType();
  const ValueId x = parts.scores(parts.products(parts.as(parts.query(), wide), parts.as(parts.key(), wide)));
  const ValueId zero = b.literal(0, wide);
  ValueId hidden; // what a row that sees nothing has beside it is no number
  if (parts.hides()) hidden = b.value("eq", {x, b.literal(-std::numeric_limits<double>::infinity(), wide)});
  auto ofSeen = [&](ValueId v) { return hidden.valid() ? b.value("select", {hidden, zero, v}) : v; };
  const ValueId p = ofSeen(b.value("exp", {b.value("sub", {x, parts.splitRows(lse)})}));
  const ValueId dp = parts.products(parts.splitResult(dy), parts.value());
  const ValueId ds =
      ofSeen(b.value("mul", {p, b.value("sub", {parts.as(dp, wide), parts.splitRows(delta)})}));
  return {parts.widened(p), parts.widened(ds)};
}

// --- the gradient of an added mask: ds, summed along the dims that the mask repeats ---

// Which of [batch, heads, s, t] it has.
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
  // One offset says where queries begin; keys that are cut would need another.
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
    return reportShape(q, "needs a mask of floats, which is added");
  results.push_back(q.operandTypes[attentionOperands(q)]);
  return true;
}

bool maskGradDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  const PairParts pair =
      pairParts(b, parts, b.module.operand(op, 3), b.module.operand(op, 4), b.module.operand(op, 5));
  const Type mask = attentionMaskType(parts.whole());
  const std::array<bool, 4> has = dimsOfMask(parts.whole());
  std::vector<int64_t> repeated;
  for (int64_t d = 0; d < 4; ++d)
    if (!has[static_cast<size_t>(d)]) repeated.push_back(d);
  ValueId x = parts.join(pair.ds, a.s, a.t);
  if (!repeated.empty()) x = b.value("sum", {x}, {{"dims", b.ints(repeated)}});
  if (b.module.typeOf(x).dims != mask.dims)
    x = b.value("reshape", {x}, {{"shape", sizesToAttr(b.module, mask.dims)}});
  results = {parts.as(x, mask.dtype)};
  return true;
}

bool gradDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  const ValueId lse = b.module.operand(op, 3), dy = b.module.operand(op, 5);
  const PairParts pair = pairParts(b, parts, lse, b.module.operand(op, 4), dy);
  auto transposed = [&](ValueId x, ValueId y) {
    return b.value("matmul", {x, y}, {{"transpose_a", b.boolean(true)}});
  };
  const ValueId dq = parts.scaled(b.value("matmul", {pair.ds, parts.key()}));
  const ValueId dk =
      parts.scaled(parts.overGroups(transposed(pair.ds, ofSeeing(b, parts, lse, parts.query()))));
  const ValueId dv = parts.overGroups(transposed(pair.p, ofSeeing(b, parts, lse, parts.splitResult(dy))));
  results = {parts.narrowed(parts.join(dq, a.s, a.d)), parts.narrowed(dk), parts.narrowed(dv)};
  return true;
}

} // namespace

// Σ dy y of each row, less the cotangent of its log-sum-exp: what is taken from every dp of the row.
static ValueId deltaOf(Builder& b, OpId op, std::span<const ValueId> dy) {
  Module& m = b.module;
  const int64_t last = -1;
  const DType wide = m.typeOf(m.result(op, 1)).dtype;
  auto as = [&](ValueId x) {
    return m.typeOf(x).dtype == wide ? x : b.value("convert", {x}, {{"dtype", b.word(dtypeName(wide))}});
  };
  const ValueId delta =
      b.value("sum", {b.value("mul", {as(dy[0]), as(m.result(op, 0))})}, {{"dims", b.ints({&last, 1})}});
  const OpId made = m.definingOp(dy[1]); // zeros where nobody asks for its gradient
  const bool none = made.valid() && std::string_view(m.record(made).name) == "constant";
  return none ? delta : b.value("sub", {delta, dy[1]});
}

bool attentionGradient(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  const ValueId lse = m.result(op, 1), delta = deltaOf(b, op, dy);
  std::vector<ValueId> operands(m.operands(op).begin(), m.operands(op).begin() + 3);
  operands.insert(operands.end(), {lse, delta, dy[0]});
  const bool masked = m[op].numOperands > 3; // the whole sequence has no offset
  if (masked) operands.push_back(m.operand(op, 3));
  const OpId grad = b.op("attention_grad", operands,
                         {{"causal", m.attr(op, "causal")},
                          {"scale", m.attr(op, "scale")},
                          {"window", m.attr(op, "window")},
                          {"ring", m.attr(op, "ring")}});
  for (uint32_t i = 0; i < 3; ++i) dx.push_back(m.result(grad, i));
  if (!masked) return true;
  const bool added = isFloat(m.typeOf(m.operand(op, 3)).dtype);
  if (!added) {
    dx.emplace_back();
    return true;
  }
  const OpId ofMask = b.op(
      "attention_grad_mask", operands,
      {{"causal", m.attr(op, "causal")}, {"scale", m.attr(op, "scale")}, {"window", m.attr(op, "window")}});
  dx.push_back(m.result(ofMask));
  return true;
}

// What lib/Kernel/AttentionGradient.cpp makes one kernel of: heads whose sizes are numbers, of at most 1 KiB in what is summed in,
// as attention itself (lib/Passes/Decompose.cpp).
static bool isOneKernel(const OpQuery& q) {
  const int64_t most = 1024 / dtypeBytes(accumulationType(q.type(0).dtype));
  for (size_t i : {0, 2}) {
    const Dim size = q.type(i).dims[3];
    if (!size.isStatic() || size.value() == 0 || size.value() > most) return false;
  }
  return true;
}

// The same kernel's products, of a mask that says of each query what it says of each key: its sums are then along batch and heads.
static bool isOneMaskKernel(const OpQuery& q) {
  const std::array<bool, 4> has = dimsOfMask(q);
  return isOneKernel(q) && has[2] && has[3];
}

static void addAttentionGradMaskOp(OpRegistry& ops) {
  OpRecord grad{.name = "attention_grad_mask",
                .family = "attention",
                .summary =
                    "the gradient of attention's mask that is added: the cotangents of the scores, summed "
                    "along the dims that it repeats"};
  grad.operands = "q, k, v, lse, delta, dy, mask, offset?";
  grad.operandTypes = "T, T, T, any, any, T, any, i32";
  grad.literal = OpRecord::LiteralType::Exponent;
  grad.results = "dmask";
  grad.operandClasses = kFloats;
  grad.attrs = {{"causal", AttrType::Bool, "false", "query i sees keys 0 … i"},
                {"scale", AttrType::Float, "", "1/sqrt(dim) if left out"},
                {"window", AttrType::Int, "0", "only keys nearer than that are seen; 0: all"}};
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
      "T[2, 2, 7, 2], T[2, 1, 7, 2], T[2, 1, 7, 3], T[2, 2, 7], T[2, 2, 7], T[2, 2, 7, 3], T[2, 1, 7, 7] "
      "{window = 3, scale = 0.1}";
  ops.add(std::move(grad));
}

void addAttentionGradOp(OpRegistry& ops) {
  addAttentionGradMaskOp(ops);
  OpRecord grad{.name = "attention_grad",
                .family = "attention",
                .summary = "the gradient of attention from its lse, the cotangent dy of y, and delta, the "
                           "sum of dy y of each row"};
  grad.operands = "q, k, v, lse, delta, dy, mask?, offset?";
  grad.operandTypes = "T, T, T, any, any, T, any, i32";
  grad.literal = OpRecord::LiteralType::Exponent; // an offset without a mask before it
  grad.results = "dq, dk, dv";
  grad.operandClasses = kFloats;
  grad.attrs = {{"causal", AttrType::Bool, "false", "query i sees keys 0 … i"},
                {"scale", AttrType::Float, "", "1/sqrt(dim) if left out"},
                {"window", AttrType::Int, "0", "only keys nearer than that are seen; 0: all"},
                {"ring", AttrType::String, "priced", "as of attention"}};
  grad.rule = gradRule;
  grad.infer = gradInfer;
  grad.eval = attentionGradEval;
  grad.decompose = gradDecompose;
  grad.cut = cutAttentionGrad;
  grad.through = {linear(0b110000)}; // and affine in each of v, delta and dy
  for (uint32_t operands : {0b100, 0b10000, 0b100000, 0b10100})
    grad.through.push_back({ThroughRow::Linear, operands, false, ~0u, kindBit(PendingKind::Avg)});
  grad.lowering = Lowering::Decompose;
  grad.offsetOperand = 6;
  grad.derive = [](const OpQuery& q, std::string_view name) -> std::optional<double> {
    if (name == "one kernel") return isOneKernel(q) ? 1 : 0;
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
  ops.add(std::move(grad));
}

} // namespace dtc
