// attention and rope. attention stays whole: one kernel walks over the keys (lib/Kernel/Attention.h). Its decomposition into
// matmul, masks and softmax is what that kernel is derived from, and what its gradient is made of.
#include "Merge.h"
#include "ShapeParts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace {

// --- attention ---

// q [batch, heads, s, d], k [batch, kv heads, t, d], v [batch, kv heads, t, e], mask broadcast against [batch, heads, s, t].
struct AttentionShape {
  Dim batch, heads, kvHeads, s, t, d, e, groups; // heads = kvHeads * groups
};

bool shapeOf(const OpQuery& q, AttentionShape& a) {
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
  if (a.heads == a.kvHeads) return true;
  auto groups = q.module->dims.divExact(a.heads, a.kvHeads);
  if (!groups) return reportDims(q, "needs dim", "to divide it: dim", 0, 1, 1, 1);
  a.groups = *groups;
  return true;
}

// The operands behind q, k and v: a mask, and where the piece of the queries begins, a number of its own type.
bool isOffset(const Type& t) { return t.dtype == DType::I32 && t.rank() == 0; }
bool hasMask(const OpQuery& q) { return q.operandTypes.size() > 3 && !isOffset(q.type(3)); }
bool hasOffset(const OpQuery& q) {
  return q.operandTypes.size() > 3 && isOffset(q.type(q.operandTypes.size() - 1));
}

bool grouped(const AttentionShape& a) { return !(a.heads == a.kvHeads); }

bool checkMask(const OpQuery& q, const AttentionShape& a) {
  if (!hasMask(q)) return true;
  const Type mask = q.type(3);
  if (mask.dtype != DType::Bool && mask.dtype != q.type(0).dtype)
    return reportShape(q, "takes a mask of bool or of the dtype of q");
  const Dim full[] = {a.batch, a.heads, a.s, a.t};
  if (mask.rank() > 4) return reportRank(q, 3, "at most 4");
  for (size_t k = 0; k < mask.rank(); ++k) {
    Dim own = mask.dims[k], want = full[4 - mask.rank() + k];
    if (!isOneDim(own) && !(own == want))
      return reportShape(q, "needs a mask that broadcasts against [batch, heads, seq, seq]: dim " +
                                std::to_string(k) + " is " + dimText(q, own) + ", not " + dimText(q, want));
  }
  return true;
}

// Batch and heads pass (grouped heads as (kv head, group)), queries and v's last dim too. Where what a query sees depends on
// its place, it is told where its piece begins.
bool attentionRule(const OpQuery& q, Rule& rule) {
  AttentionShape a;
  if (!shapeOf(q, a) || !checkMask(q, a)) return false;
  bool placed = q.boolAttr("causal") || q.intAttr("window") != 0;
  uint16_t b = addFactor(rule, a.batch, "b"), h = addFactor(rule, a.kvHeads, "h");
  uint16_t g = grouped(a) ? addFactor(rule, a.groups, "g") : 0;
  uint16_t s = addFactor(rule, a.s, "s", placed ? FactorKind::Place : FactorKind::Pass);
  uint16_t t = addFactor(rule, a.t, "t", FactorKind::Merge), d = addWhole(rule, a.d, "d"),
           e = addFactor(rule, a.e, "e");
  DimMap heads = plainDim(h);
  if (grouped(a)) heads.terms.push_back({g, 1});
  rule.operands = {{{plainDim(b), heads, plainDim(s), plainDim(d)}},
                   {{plainDim(b), plainDim(h), plainDim(t), plainDim(d)}},
                   {{plainDim(b), plainDim(h), plainDim(t), plainDim(e)}}};
  if (hasMask(q)) {
    const DimMap full[] = {plainDim(b), heads, plainDim(s), plainDim(t)};
    TensorMap mask;
    size_t rank = q.type(3).rank();
    for (size_t k = 0; k < rank; ++k)
      mask.dims.push_back(isOneDim(q.type(3).dims[k]) ? oneDim() : full[4 - rank + k]);
    rule.operands.push_back(std::move(mask));
  }
  // Keys may go round past the queries, but for a mask that would have to go with them.
  if (rule.operands.size() == 3 || std::ranges::none_of(rule.operands[3].dims, [&](const DimMap& dim) {
        return dim.plain() && dim.terms[0].factor == t;
      }))
    rule.factors[t].alongside = s;
  if (hasOffset(q)) rule.operands.emplace_back();
  rule.results = {{{plainDim(b), heads, plainDim(s), plainDim(e)}}};
  return true;
}

bool attentionInfer(const OpQuery& q, std::vector<TypeId>& results) {
  AttentionShape a;
  if (!shapeOf(q, a) || !checkMask(q, a)) return false;
  if (q.intAttr("window") < 0) return reportShape(q, "takes no negative window");
  if (!q.rawAttr("scale").valid() && !a.d.isStatic())
    return reportShape(q, "needs its scale written where the head size is no number");
  const Dim dims[] = {a.batch, a.heads, a.s, a.e};
  results.push_back(q.module->tensorType(q.type(0).dtype, dims));
  return true;
}

double scaleOf(const OpQuery& q) {
  if (q.rawAttr("scale").valid()) return q.floatAttr("scale");
  return 1 / std::sqrt(static_cast<double>(q.type(0).dims[3].value()));
}

struct Visible { // which keys a query sees, counted from the start of both
  bool causal;
  int64_t window;
  [[nodiscard]] bool operator()(int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    return window == 0 || (i - j < window && j - i < window);
  }
};

// A mask's element at [b, h, i, j].
double maskAt(const Tensor& mask, const int64_t (&at)[4]) {
  std::vector<int64_t> strides = mask.strides();
  int64_t flat = 0;
  for (size_t k = 0; k < mask.rank(); ++k)
    if (mask.shape()[k] != 1) flat += strides[k] * at[4 - mask.rank() + k];
  return mask.getFloat(flat);
}

template <class A> std::vector<A> widened(const Tensor& t) {
  std::vector<A> v(static_cast<size_t>(t.numElements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<A>(t.getFloat(static_cast<int64_t>(i)));
  return v;
}

struct AttentionSizes {
  int64_t batch, heads, kvHeads, s, t, d, e;
  AttentionSizes(const Tensor& q, const Tensor& k, const Tensor& v)
      : batch(q.shape()[0]), heads(q.shape()[1]), kvHeads(k.shape()[1]), s(q.shape()[2]), t(k.shape()[2]),
        d(q.shape()[3]), e(v.shape()[3]) {}
};

// The weights of query i of one head: masked, scaled scores to their softmax, in place. `place`: i in the whole sequence.
template <class A>
void weigh(const OpQuery& q, const Tensor* mask, int64_t b, int64_t h, int64_t i, int64_t place,
           std::span<A> p) {
  const A hidden = -std::numeric_limits<A>::infinity(), scale = static_cast<A>(scaleOf(q));
  A greatest = hidden, sum = 0;
  Visible visible{q.boolAttr("causal"), q.intAttr("window")};
  for (size_t k = 0; k < p.size(); ++k) {
    auto j = static_cast<int64_t>(k);
    A x = visible(place, j) ? p[k] * scale : hidden;
    if (mask && isFloat(mask->dtype()))
      x += static_cast<A>(maskAt(*mask, {b, h, i, j}));
    else if (mask)
      x = maskAt(*mask, {b, h, i, j}) != 0 ? x : hidden;
    p[k] = x;
    greatest = std::isnan(x) || x > greatest ? x : greatest;
  }
  for (A& x : p) sum += x = std::exp(x - greatest);
  for (A& x : p) x /= sum;
}

// A: what a plain program of the result's dtype sums in, and more where nothing is to be rounded.
template <class A>
bool attentionIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  AttentionSizes n(*in[0], *in[1], *in[2]);
  std::vector<A> qs = widened<A>(*in[0]), ks = widened<A>(*in[1]), vs = widened<A>(*in[2]);
  std::vector<A> p(static_cast<size_t>(n.t)), y(static_cast<size_t>(n.e)), kt(static_cast<size_t>(n.t * n.d));
  int64_t groups = n.kvHeads ? n.heads / n.kvHeads : 1, offset = hasOffset(q) ? in.back()->getInt(0) : 0;
  for (int64_t bh = 0; bh < n.batch * n.heads; ++bh) {
    int64_t b = bh / n.heads, h = bh % n.heads, kv = b * n.kvHeads + h / groups;
    for (int64_t j = 0; j < n.t; ++j)
      for (int64_t c = 0; c < n.d; ++c) kt[c * n.t + j] = ks[(kv * n.t + j) * n.d + c];
    for (int64_t i = 0; i < n.s; ++i) {
      std::fill(p.begin(), p.end(), A(0));
      for (int64_t c = 0; c < n.d; ++c)
        for (int64_t j = 0; j < n.t; ++j) p[j] += qs[(bh * n.s + i) * n.d + c] * kt[c * n.t + j];
      weigh<A>(q, hasMask(q) ? in[3] : nullptr, b, h, i, i + offset, p);
      std::fill(y.begin(), y.end(), A(0));
      for (int64_t j = 0; j < n.t; ++j)
        for (int64_t c = 0; c < n.e; ++c) y[c] += p[j] * vs[(kv * n.t + j) * n.e + c];
      for (int64_t c = 0; c < n.e; ++c) out[0]->setFloat((bh * n.s + i) * n.e + c, static_cast<double>(y[c]));
    }
  }
  return true;
}

bool attentionEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  if (q.exact && q.type(0).dtype == DType::F64) return attentionIn<long double>(q, in, out);
  return out[0]->dtype() == DType::F64 ? attentionIn<double>(q, in, out) : attentionIn<float>(q, in, out);
}

// The parts of an attention in basic ops; grouped heads are a dim of their own beside the kv heads.
class AttentionParts {
public:
  AttentionParts(Builder& b, OpId op) : b_(b), op_(op), q_(queryOf(b.module, op, none_)) {
    (void)shapeOf(q_, a_);
  }

  ValueId query() {
    const ValueId q = widened(b_.module.operand(op_, 0));
    return grouped(a_) ? split(q, a_.s, a_.d) : q;
  }
  ValueId key() { return beside(1); }
  ValueId value() { return beside(2); }
  ValueId split(ValueId x, Dim rows, Dim columns) {
    return reshape(x, {a_.batch, a_.kvHeads, a_.groups, rows, columns});
  }
  // [batch, kv heads, groups, rows, columns] back to [batch, heads, rows, columns].
  ValueId join(ValueId x, Dim rows, Dim columns) {
    return grouped(a_) ? reshape(x, {a_.batch, a_.heads, rows, columns}) : x;
  }
  // Of k or v: the sum over the groups that share a head.
  ValueId overGroups(ValueId x) {
    int64_t dim = 2;
    return grouped(a_) ? b_.value("sum", {x}, {{"dims", b_.ints({&dim, 1})}}) : x;
  }
  ValueId scaled(ValueId x) { return b_.value("mul", {x, b_.literal(scaleOf(q_), dtype())}); }
  // f8 has neither the range of scores nor, in one form, the infinity that hides them: its parts are in f32.
  [[nodiscard]] DType dtype() const {
    const DType own = q_.type(0).dtype;
    return dtypeBytes(own) == 1 ? DType::F32 : own;
  }
  ValueId widened(ValueId x) { return as(x, dtype()); }
  ValueId narrowed(ValueId x) { return as(x, q_.type(0).dtype); }

  // The softmax of the masked scores.
  ValueId weights() {
    ValueId x = scaled(b_.value("matmul", {query(), key()}, {{"transpose_b", b_.boolean(true)}}));
    ValueId hidden = b_.literal(-std::numeric_limits<double>::infinity(), dtype());
    if (ValueId seen = visible(); seen.valid()) x = b_.value("select", {seen, x, hidden});
    if (hasMask(q_)) {
      ValueId mask = maskValue();
      x = isFloat(q_.type(3).dtype) ? b_.value("add", {x, mask}) : b_.value("select", {mask, x, hidden});
    }
    int64_t last = -1;
    return b_.value("softmax", {x}, {{"dims", b_.ints({&last, 1})}});
  }
  ValueId output(ValueId p) { return narrowed(join(b_.value("matmul", {p, value()}), a_.s, a_.e)); }
  // The cotangent of the result as `weights` is shaped.
  ValueId cotangent(ValueId dy) { return grouped(a_) ? split(widened(dy), a_.s, a_.e) : widened(dy); }
  [[nodiscard]] const AttentionShape& shape() const { return a_; }

private:
  ValueId as(ValueId x, DType to) {
    if (b_.module.typeOf(x).dtype == to) return x;
    return b_.value("convert", {x}, {{"dtype", b_.word(dtypeName(to))}});
  }
  ValueId reshape(ValueId x, std::initializer_list<Dim> dims) {
    std::vector<Dim> shape(dims);
    return b_.value("reshape", {x}, {{"shape", sizesToAttr(b_.module, shape)}});
  }
  ValueId beside(size_t operand) {
    int64_t dim = 2;
    ValueId x = widened(b_.module.operand(op_, operand));
    return grouped(a_) ? b_.value("expand_dims", {x}, {{"dims", b_.ints({&dim, 1})}}) : x;
  }
  ValueId iota(int64_t dim) {
    const Dim dims[] = {a_.s, a_.t};
    TypeId type[] = {b_.module.tensorType(DType::I32, dims)};
    std::vector<ValueId> offset; // of the queries
    if (dim == 0 && hasOffset(q_)) offset.push_back(b_.module.operand(op_, b_.module[op_].numOperands - 1));
    return b_.module.result(b_.op("iota", offset, {{"dim", b_.integer(dim)}}, type));
  }
  // bool[s, t], or invalid where every key is seen.
  ValueId visible() {
    bool causal = q_.boolAttr("causal");
    int64_t window = q_.intAttr("window");
    if (!causal && window == 0) return {};
    ValueId rows = iota(0), columns = iota(1), seen;
    if (causal) seen = b_.value("ge", {rows, columns});
    if (window != 0) {
      ValueId distance = b_.value("sub", {rows, columns});
      if (!causal) distance = b_.value("abs", {distance});
      ValueId near = b_.value("lt", {distance, b_.literal(static_cast<double>(window), DType::I32)});
      seen = seen.valid() ? b_.value("and", {seen, near}) : near;
    }
    return seen;
  }
  // The mask with a dim for the groups, where it has one for the heads.
  ValueId maskValue() {
    ValueId mask = b_.module.operand(op_, 3);
    if (isFloat(q_.type(3).dtype)) mask = widened(mask);
    std::vector<Dim> dims = q_.type(3).dims;
    if (!grouped(a_) || dims.size() < 3) return mask;
    size_t heads = dims.size() - 3;
    bool one = isOneDim(dims[heads]);
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(heads) + 1, one ? Dim(1) : a_.groups);
    dims[heads] = one ? Dim(1) : a_.kvHeads;
    return b_.value("reshape", {mask}, {{"shape", sizesToAttr(b_.module, dims)}});
  }

  Builder& b_;
  OpId op_;
  Diagnostics none_;
  OpQuery q_;
  AttentionShape a_;
};

bool attentionDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  AttentionParts parts(b, op);
  results.push_back(parts.output(parts.weights()));
  return true;
}

// With p the weights: dv = pᵀ dy; dp = dy vᵀ; ds = p (dp - Σ dp p); dq = scale ds k; dk = scale dsᵀ q.
bool attentionGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  AttentionParts parts(b, op);
  const AttentionShape& a = parts.shape();
  int64_t last = -1;
  ValueId p = parts.weights(), g = parts.cotangent(dy[0]);
  ValueId dp = b.value("matmul", {g, parts.value()}, {{"transpose_b", b.boolean(true)}});
  ValueId sum =
      b.value("sum", {b.value("mul", {dp, p})}, {{"dims", b.ints({&last, 1})}, {"keepdim", b.boolean(true)}});
  ValueId ds = b.value("mul", {p, b.value("sub", {dp, sum})});
  ValueId dq = parts.scaled(b.value("matmul", {ds, parts.key()}));
  ValueId dk = parts.scaled(b.value("matmul", {ds, parts.query()}, {{"transpose_a", b.boolean(true)}}));
  ValueId dv = b.value("matmul", {p, g}, {{"transpose_a", b.boolean(true)}});
  dx = {parts.narrowed(parts.join(dq, a.s, a.d)), parts.narrowed(parts.overGroups(dk)),
        parts.narrowed(parts.overGroups(dv))};
  if (b.module[op].numOperands > 3) // the whole sequence has no offset
    dx.push_back(isFloat(b.module.typeOf(b.module.operand(op, 3)).dtype)
                     ? parts.narrowed(parts.join(ds, a.s, a.t))
                     : ValueId());
  return true;
}

// --- rope ---

bool ropeRule(const OpQuery& q, Rule& rule) {
  if (!ruleFromText(q, "[.. s d], [.. s] -> [.. s d]; d: whole", rule)) return false;
  Dim d = q.type(0).dims.back();
  if (d.isStatic() && d.value() % 2 == 0) return true;
  return reportShape(q, "turns pairs: the last dim must be even, and it is " + dimText(q, d));
}

// Element j of a row turns with its partner: (i, i + d/2), or (2i, 2i + 1) where interleaved; the angle is
// position * base^(-2i/d).
bool ropeEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor &x = *in[0], &positions = *in[1];
  int64_t d = x.shape().back(), half = d / 2;
  bool interleaved = q.boolAttr("interleaved");
  double base = q.floatAttr("base");
  std::vector<int64_t> rows(x.shape().begin(), x.shape().end() - 1), strides = positions.strides();
  size_t lead = rows.size() - positions.rank();
  forEachElement(rows, [&](std::span<const int64_t> at, int64_t r) {
    int64_t p = 0;
    for (size_t k = 0; k < positions.rank(); ++k)
      if (positions.shape()[k] != 1) p += strides[k] * at[lead + k];
    double position = positions.getFloat(p);
    for (int64_t i = 0; i < half; ++i) {
      int64_t a = r * d + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + half;
      double angle = position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      double u = x.getFloat(a), v = x.getFloat(b), c = std::cos(angle), s = std::sin(angle);
      out[0]->setFloat(a, u * c - v * s);
      out[0]->setFloat(b, v * c + u * s);
    }
  });
  return true;
}

// The angle in f64: in f32 a late position would lose the digits that the sine needs.
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
  int64_t step = interleaved ? 1 : half; // the partner is `step` after on side 0 and before on side 1
  other[rank - 1] = b.add(b.sub(j, b.mul(side, 2 * step)), b.index(step));
  ElementNode exponent =
      b.call("mul", {b.convert(pair, DType::F64), b.number(-2.0 / static_cast<double>(d), DType::F64)});
  ElementNode rate =
      b.call("exp", {b.call("mul", {exponent, b.number(std::log(q.floatAttr("base")), DType::F64)})});
  ElementNode angle = b.call("mul", {b.convert(b.load(1, where, true), DType::F64), rate});
  ElementNode cosine = b.convert(b.call("cos", {angle}), x.dtype),
              sine = b.convert(b.call("sin", {angle}), x.dtype);
  ElementNode turned = b.call("mul", {b.load(0, other, true), sine});
  ElementNode first = b.call("eq", {side, b.index(0)});
  return b.call("add", {b.call("mul", {b.load(0, at, true), cosine}),
                        b.call("select", {first, b.call("neg", {turned}), turned})});
}

// Turned back: by the angles of the negative positions.
bool ropeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  ValueId positions = b.module.operand(op, 1);
  if (isUnsignedInt(q.type(1).dtype)) positions = b.value("convert", {positions}, {{"dtype", b.word("i32")}});
  dx.resize(2);
  dx[0] = b.value("rope", {dy[0], b.value("neg", {positions})},
                  {{"base", b.module.attrs.real(q.floatAttr("base"))},
                   {"interleaved", b.boolean(q.boolAttr("interleaved"))}});
  return true;
}

} // namespace

void addAttentionOps(OpRegistry& ops) {
  OpRecord attention{.name = "attention",
                     .family = "attention",
                     .summary = "softmax(scale * q kᵀ, masked) v; q, k, v [batch, heads, seq, dim]"};
  attention.operands = "q, k, v, mask?, offset?";
  attention.operandTypes = "T, T, T, any, i32";
  attention.operandClasses = kFloats;
  attention.attrs = {{"causal", AttrType::Bool, "false", "query i sees keys 0 … i"},
                     {"scale", AttrType::Float, "", "1/sqrt(dim) if left out"},
                     {"window", AttrType::Int, "0", "only keys nearer than that are seen; 0: all"}};
  attention.rule = attentionRule;
  attention.infer = attentionInfer;
  attention.eval = attentionEval;
  attention.decompose = attentionDecompose;
  attention.cut = cutAttention;
  attention.gradFn = attentionGrad;
  attention.through = {linear(0b100)};
  attention.lowering = Lowering::Rows;
  attention.offsetOperand = 3;
  attention.flopsPerPoint = 4;
  attention.samples = "T[2, 2, 3, 4], T[2, 2, 5, 4], T[2, 2, 5, 3]\n"
                      "T[2, 4, 3, 2], T[2, 2, 3, 2], T[2, 2, 3, 2] {causal = true, scale = 0.5}\n"
                      "T[1, 2, 3, 2], T[1, 2, 4, 2], T[1, 2, 4, 2], T[2, 1, 4] {window = 2}\n"
                      "T[2, 2, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], bool[3, 3]";
  ops.add(std::move(attention));

  OpRecord rope{.name = "rope",
                .family = "attention",
                .summary =
                    "rotary position embedding: pairs of the last dim turned by position * base^(-2i/dim)"};
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
  ops.add(std::move(rope));
}

} // namespace dtc
