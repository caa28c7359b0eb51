#include "attention/AttentionParts.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

static bool isOffset(const Type& t) { return t.dtype == DType::I32 && t.rank() == 0; }

static bool makesParts(const OpQuery& q) { return std::string_view(q.record->name) == "attention_parts"; }

static bool checkMask(const OpQuery& q, const AttentionShape& a) {
  if (!hasAttentionMask(q)) return true;
  const size_t operand = attentionOperands(q);
  const Type mask = q.type(operand);
  const DType own = q.type(0).dtype, wide = accumulationType(own);
  if (mask.dtype != DType::Bool && mask.dtype != own && mask.dtype != wide)
    return reportShape(q, std::string("takes a mask of bool or of the dtype of q") +
                              (own == wide ? "" : ", or of f32"));
  const Dim full[] = {a.batch, a.heads, a.s, a.t};
  if (mask.rank() > 4) return reportRank(q, operand, "at most 4");
  for (size_t k = 0; k < mask.rank(); ++k) {
    Dim size = mask.dims[k], want = full[4 - mask.rank() + k];
    if (!isOneDim(size) && !(size == want))
      return reportShape(q, "needs a mask that broadcasts against [batch, heads, seq, seq]: dim " +
                                std::to_string(k) + " is " + dimText(q, size) + ", not " + dimText(q, want));
  }
  return true;
}

size_t attentionOperands(const OpQuery& q) {
  return std::string_view(q.record->name).starts_with("attention_grad") ? 6 : 3;
}
bool hasAttentionMask(const OpQuery& q) {
  const size_t first = attentionOperands(q);
  return q.operandTypes.size() > first && !isOffset(q.type(first));
}
bool hasAttentionOffset(const OpQuery& q) {
  const size_t n = q.operandTypes.size();
  return n > attentionOperands(q) && isOffset(q.type(n - 1));
}
const Type& attentionMaskType(const OpQuery& q) { return q.type(attentionOperands(q)); }

double attentionScale(const OpQuery& q) {
  if (q.rawAttr("scale").valid()) return q.floatAttr("scale");
  return 1 / std::sqrt(static_cast<double>(q.type(0).dims[3].value()));
}

double attentionExchange(const OpQuery& q) {
  const std::string_view said = q.textAttr("ring");
  return said == "gather" ? 2 : said == "heads" ? 3 : said == "ordered" || said == "balanced" ? 1 : 0;
}

std::optional<double> attentionFlops(const OpQuery& q, double productsOfD, double productsOfE) {
  const Dim d = q.type(0).dims[3], e = q.type(2).dims[3];
  if (!d.isStatic() || !e.isStatic() || d.value() == 0 || e.value() == 0) return std::nullopt;
  return 2 * (productsOfD / static_cast<double>(e.value()) + productsOfE / static_cast<double>(d.value()));
}

bool attentionShapeOf(const OpQuery& q, AttentionShape& a) {
  for (size_t i = 0; i < 3; ++i)
    if (q.type(i).rank() != 4) return reportRank(q, i, "4");
  const Type query = q.type(0), key = q.type(1), value = q.type(2);
  a = {query.dims[0], query.dims[1], key.dims[1],   query.dims[2],
       key.dims[2],   query.dims[3], value.dims[3], Dim(1)};
  if (!(key.dims[0] == a.batch)) return reportDims(q, "needs dim", "equal to dim", 0, 0, 1, 0);
  if (!(value.dims[0] == a.batch)) return reportDims(q, "needs dim", "equal to dim", 0, 0, 2, 0);
  if (!(key.dims[3] == a.d)) return reportDims(q, "contracts dim", "with dim", 0, 3, 1, 3);
  if (!(value.dims[1] == a.kvHeads)) return reportDims(q, "needs dim", "equal to dim", 1, 1, 2, 1);
  if (!(value.dims[2] == a.t)) return reportDims(q, "needs dim", "equal to dim", 1, 2, 2, 2);
  if (a.grouped()) {
    auto groups = q.module->dims.divExact(a.heads, a.kvHeads);
    if (!groups) return reportDims(q, "needs dim", "to divide it: dim", 0, 1, 1, 1);
    a.groups = *groups;
  }
  if (!makesParts(q) && q.record->name != std::string_view("attention_grad_mask") &&
      !textChoice(q, "ring", {"priced", "ordered", "balanced", "gather", "heads"}))
    return false;
  if (q.intAttr("window") < 0)
    return reportShape(q, "takes a window of at least 0, not " + std::to_string(q.intAttr("window")));
  if (!q.rawAttr("scale").valid() && !a.d.isStatic())
    return reportShape(q, "needs the attribute 'scale' if the head size is symbolic");
  return checkMask(q, a);
}

AttentionFactors attentionFactors(Rule& rule, const AttentionShape& a) {
  AttentionFactors f;
  f.b = addFactor(rule, a.batch, "b");
  f.h = addFactor(rule, a.kvHeads, "h");
  f.g = a.grouped() ? addFactor(rule, a.groups, "g") : f.h;
  f.s = addFactor(rule, a.s, "s");
  f.t = addFactor(rule, a.t, "t", FactorKind::Merge);
  f.d = addUnsharded(rule, a.d, "d");
  f.e = addFactor(rule, a.e, "e");
  f.heads = plainDim(f.h);
  if (a.grouped()) f.heads.terms.push_back({f.g, 1});
  f.query = {{plainDim(f.b), f.heads, plainDim(f.s), plainDim(f.d)}};
  f.key = {{plainDim(f.b), plainDim(f.h), plainDim(f.t), plainDim(f.d)}};
  f.value = {{plainDim(f.b), plainDim(f.h), plainDim(f.t), plainDim(f.e)}};
  f.result = {{plainDim(f.b), f.heads, plainDim(f.s), plainDim(f.e)}};
  f.rows = {{plainDim(f.b), f.heads, plainDim(f.s)}};
  return f;
}

void addAttentionMask(const OpQuery& q, Rule& rule, const AttentionFactors& f) {
  TensorMap mask;
  bool ofRows = false, ofKeys = false;
  if (hasAttentionMask(q)) {
    const DimMap full[] = {plainDim(f.b), f.heads, plainDim(f.s), plainDim(f.t)};
    const Type type = attentionMaskType(q);
    for (size_t k = 0; k < type.rank(); ++k) {
      const size_t dim = 4 - type.rank() + k;
      const bool one = isOneDim(type.dims[k]);
      mask.dims.push_back(one ? oneDim() : full[dim]);
      ofRows |= dim == 2 && !one, ofKeys |= dim == 3 && !one;
    }
    rule.operands.push_back(std::move(mask));
  }
  // Keys may circulate past the queries with their mask, but a mask over pairs would have to be sharded
  // twice.
  if (!(ofRows && ofKeys)) rule.factors[f.t].alongside = f.s;
  if (hasAttentionOffset(q)) rule.operands.emplace_back();
}

AttentionParts::AttentionParts(Builder& b, OpId op, Heads heads)
    : b_(b), op_(op), q_(queryOf(b.module, op, none_)), ownRows_(0) {
  (void)attentionShapeOf(q_, a_);
  if (heads == Heads::Apart) return;
  ownRows_ = a_.s;
  a_.s = Dim(a_.groups.value() * a_.s.value());
  a_.heads = a_.kvHeads, a_.groups = Dim(1);
}

DType AttentionParts::dtype() const {
  const DType own = q_.type(0).dtype;
  const bool wide = dtypeBytes(own) == 1 || makesParts(q_) || q_.boolAttr("lse");
  return wide ? accumulationType(own) : own;
}

Expr AttentionParts::split(Expr x, Dim rows, Dim columns) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.kvHeads, a_.groups, rows, columns}) : x;
}
Expr AttentionParts::join(Expr x, Dim rows, Dim columns) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.heads, rows, columns}) : x;
}
Expr AttentionParts::splitRows(Expr x) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.kvHeads, a_.groups, a_.s, Dim(1)})
                      : reshape(x, {a_.batch, a_.heads, a_.s, Dim(1)});
}
Expr AttentionParts::overGroups(Expr x) { return a_.grouped() ? sum(x, {.dims = {2}}) : x; }

Expr AttentionParts::afterHeads(uint32_t i, Dim columns) {
  const Expr x = widened(operand(i));
  if (!(ownRows_ == Dim(0))) return reshape(x, {a_.batch, a_.heads, a_.s, columns});
  return split(x, a_.s, columns);
}
Expr AttentionParts::afterGroups(uint32_t i) {
  const Expr x = widened(operand(i));
  return a_.grouped() ? expand_dims(x, {2}) : x;
}

Expr AttentionParts::positionsAlong(int64_t dim) {
  const Dim dims[] = {a_.s, a_.t};
  const TypeId type = b_.module.tensorType(DType::I32, dims);
  const bool joined = !(ownRows_ == Dim(0));
  Expr offset; // of the queries
  if (dim == 0 && hasAttentionOffset(q_)) offset = operand(b_.module[op_].numOperands - 1);
  if (dim != 0 || !joined) return ops::iota(b_, type, {.offset = offset, .dim = dim});
  const Expr own = ops::iota(b_, type, {.dim = dim}) % ownRows_.value();
  return offset.valid() ? own + offset : own;
}

Expr AttentionParts::visible() {
  const AttentionVisible which(q_);
  if (!which.causal && which.window == 0) return {};
  Expr rows = positionsAlong(0), columns = positionsAlong(1), seen;
  if (which.causal) seen = rows >= columns;
  if (which.window != 0) {
    Expr distance = rows - columns;
    if (!which.causal) distance = abs(distance);
    Expr near = distance < which.window;
    seen = seen.valid() ? seen & near : near;
  }
  return seen;
}

// The mask, with a dim for the groups if it has one for the heads.
Expr AttentionParts::maskValue(DType like) {
  Expr mask = operand(static_cast<uint32_t>(attentionOperands(q_)));
  if (isFloat(mask.dtype())) mask = mask.as(like);
  std::vector<Dim> dims = mask.dims();
  if (!a_.grouped() || dims.size() < 3) return mask;
  const size_t heads = dims.size() - 3;
  const bool one = isOneDim(dims[heads]);
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(heads) + 1, one ? Dim(1) : a_.groups);
  dims[heads] = one ? Dim(1) : a_.kvHeads;
  return reshape(mask, dims);
}

Expr AttentionParts::scores(Expr products) {
  Expr x = scaled(products);
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  if (hasAttentionMask(q_)) {
    const Expr mask = maskValue(x.dtype());
    x = isFloat(mask.dtype()) ? x + mask : select(mask, x, hidden);
  }
  if (const Expr seen = visible(); seen.valid()) x = select(seen, x, hidden);
  return x;
}

// A max score of -inf is not subtracted: exp(-inf - -inf) is NaN.
Expr AttentionParts::logSumExpOf(Expr scores) {
  const Expr x = scores.as(wideType());
  const Expr rowMax = max(x, {.dims = {-1}, .keepdim = true});
  const Expr none = eq(rowMax, -std::numeric_limits<double>::infinity());
  const Expr shift = select(none, 0, rowMax);
  const Expr total = sum(exp(x - shift), {.dims = {-1}, .keepdim = true});
  return log(total) + shift;
}

Expr AttentionParts::logSumExp(Expr scores) {
  return reshape(logSumExpOf(scores), {a_.batch, a_.heads, a_.s});
}

} // namespace dtc
