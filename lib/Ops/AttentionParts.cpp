#include "AttentionParts.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {

namespace {

bool isOffset(const Type& t) { return t.dtype == DType::I32 && t.rank() == 0; }

bool makesParts(const OpQuery& q) { return std::string_view(q.record->name) == "attention_parts"; }

bool checkMask(const OpQuery& q, const AttentionShape& a) {
  if (!hasAttentionMask(q)) return true;
  const size_t operand = attentionOperands(q);
  const Type mask = q.type(operand);
  if (mask.dtype != DType::Bool && mask.dtype != q.type(0).dtype)
    return reportShape(q, "takes a mask of bool or of the dtype of q");
  const Dim full[] = {a.batch, a.heads, a.s, a.t};
  if (mask.rank() > 4) return reportRank(q, operand, "at most 4");
  for (size_t k = 0; k < mask.rank(); ++k) {
    Dim own = mask.dims[k], want = full[4 - mask.rank() + k];
    if (!isOneDim(own) && !(own == want))
      return reportShape(q, "needs a mask that broadcasts against [batch, heads, seq, seq]: dim " +
                                std::to_string(k) + " is " + dimText(q, own) + ", not " + dimText(q, want));
  }
  return true;
}

} // namespace

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
  if (!makesParts(q) && q.record->name != std::string_view("attention_grad_mask")) {
    const std::string_view ring = q.textAttr("ring");
    if (ring != "priced" && ring != "ordered" && ring != "balanced")
      return reportShape(q, "takes ring = \"priced\", \"ordered\" or \"balanced\", not \"" +
                                std::string(q.textAttr("ring")) + "\"");
  }
  if (q.intAttr("window") < 0)
    return reportShape(q, "takes a window of at least 0, not " + std::to_string(q.intAttr("window")));
  if (!q.rawAttr("scale").valid() && !a.d.isStatic())
    return reportShape(q, "needs the attribute 'scale' where the head size is not a number");
  return checkMask(q, a);
}

AttentionFactors attentionFactors(Rule& rule, const AttentionShape& a) {
  AttentionFactors f;
  f.b = addFactor(rule, a.batch, "b");
  f.h = addFactor(rule, a.kvHeads, "h");
  f.g = a.grouped() ? addFactor(rule, a.groups, "g") : f.h;
  f.s = addFactor(rule, a.s, "s");
  f.t = addFactor(rule, a.t, "t", FactorKind::Merge);
  f.d = addWhole(rule, a.d, "d");
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
  // Keys may go round past the queries, with what a mask says of them; but what it says of pairs would have to be cut twice.
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

ValueId AttentionParts::as(ValueId x, DType to) {
  if (typeOf(x).dtype == to) return x;
  return b_.value("convert", {x}, {{"dtype", b_.word(dtypeName(to))}});
}

ValueId AttentionParts::reshape(ValueId x, std::initializer_list<Dim> dims) {
  std::vector<Dim> shape(dims);
  return b_.value("reshape", {x}, {{"shape", sizesToAttr(b_.module, shape)}});
}
ValueId AttentionParts::split(ValueId x, Dim rows, Dim columns) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.kvHeads, a_.groups, rows, columns}) : x;
}
ValueId AttentionParts::join(ValueId x, Dim rows, Dim columns) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.heads, rows, columns}) : x;
}
ValueId AttentionParts::splitRows(ValueId x) {
  return a_.grouped() ? reshape(x, {a_.batch, a_.kvHeads, a_.groups, a_.s, Dim(1)})
                      : reshape(x, {a_.batch, a_.heads, a_.s, Dim(1)});
}
ValueId AttentionParts::overGroups(ValueId x) {
  int64_t dim = 2;
  return a_.grouped() ? b_.value("sum", {x}, {{"dims", b_.ints({&dim, 1})}}) : x;
}

ValueId AttentionParts::besideHeads(uint32_t i, Dim columns) {
  const ValueId x = widened(b_.module.operand(op_, i));
  if (!(ownRows_ == Dim(0))) return reshape(x, {a_.batch, a_.heads, a_.s, columns});
  return split(x, a_.s, columns);
}
ValueId AttentionParts::besideGroups(uint32_t i) {
  int64_t dim = 2;
  const ValueId x = widened(b_.module.operand(op_, i));
  return a_.grouped() ? b_.value("expand_dims", {x}, {{"dims", b_.ints({&dim, 1})}}) : x;
}

ValueId AttentionParts::iota(int64_t dim) {
  const Dim dims[] = {a_.s, a_.t};
  TypeId type[] = {b_.module.tensorType(DType::I32, dims)};
  const bool joined = !(ownRows_ == Dim(0));
  std::vector<ValueId> offset; // of the queries
  if (dim == 0 && hasAttentionOffset(q_))
    offset.push_back(b_.module.operand(op_, b_.module[op_].numOperands - 1));
  if (dim != 0 || !joined) return b_.module.result(b_.op("iota", offset, {{"dim", b_.integer(dim)}}, type));
  const ValueId row = b_.module.result(b_.op("iota", {}, {{"dim", b_.integer(dim)}}, type));
  const ValueId own = b_.value("rem", {row, b_.literal(static_cast<double>(ownRows_.value()), DType::I32)});
  return offset.empty() ? own : b_.value("add", {own, offset[0]});
}

ValueId AttentionParts::visible() {
  const AttentionVisible which(q_);
  if (!which.causal && which.window == 0) return {};
  ValueId rows = iota(0), columns = iota(1), seen;
  if (which.causal) seen = b_.value("ge", {rows, columns});
  if (which.window != 0) {
    ValueId distance = b_.value("sub", {rows, columns});
    if (!which.causal) distance = b_.value("abs", {distance});
    ValueId near = b_.value("lt", {distance, b_.literal(static_cast<double>(which.window), DType::I32)});
    seen = seen.valid() ? b_.value("and", {seen, near}) : near;
  }
  return seen;
}

// The mask with a dim for the groups, where it has one for the heads.
ValueId AttentionParts::maskValue(DType like) {
  ValueId mask = b_.module.operand(op_, static_cast<uint32_t>(attentionOperands(q_)));
  if (isFloat(typeOf(mask).dtype)) mask = as(mask, like);
  std::vector<Dim> dims = typeOf(mask).dims;
  if (!a_.grouped() || dims.size() < 3) return mask;
  const size_t heads = dims.size() - 3;
  const bool one = isOneDim(dims[heads]);
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(heads) + 1, one ? Dim(1) : a_.groups);
  dims[heads] = one ? Dim(1) : a_.kvHeads;
  return b_.value("reshape", {mask}, {{"shape", sizesToAttr(b_.module, dims)}});
}

ValueId AttentionParts::scores(ValueId products) {
  ValueId x = scaled(products);
  const DType dtype = typeOf(x).dtype;
  const ValueId hidden = b_.literal(-std::numeric_limits<double>::infinity(), dtype);
  if (hasAttentionMask(q_)) {
    const ValueId mask = maskValue(dtype);
    x = isFloat(typeOf(mask).dtype) ? b_.value("add", {x, mask}) : b_.value("select", {mask, x, hidden});
  }
  if (const ValueId seen = visible(); seen.valid()) x = b_.value("select", {seen, x, hidden});
  return x;
}

// A greatest score of -inf is not subtracted: exp(-inf - -inf) is NaN.
ValueId AttentionParts::logSumExpOf(ValueId scores) {
  const int64_t last = -1;
  const ValueId x = as(scores, wideType());
  auto over = [&](const char* reduction, ValueId v) {
    return b_.value(reduction, {v}, {{"dims", b_.ints({&last, 1})}, {"keepdim", b_.boolean(true)}});
  };
  const ValueId greatest = over("max", x);
  const ValueId none =
      b_.value("eq", {greatest, b_.literal(-std::numeric_limits<double>::infinity(), wideType())});
  const ValueId shift = b_.value("select", {none, b_.literal(0, wideType()), greatest});
  const ValueId sum = over("sum", b_.value("exp", {b_.value("sub", {x, shift})}));
  return b_.value("add", {b_.value("log", {sum}), shift});
}

ValueId AttentionParts::logSumExp(ValueId scores) {
  return reshape(logSumExpOf(scores), {a_.batch, a_.heads, a_.s});
}

} // namespace dtc
