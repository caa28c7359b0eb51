// gather index_select embedding one_hot: lookup by index. The looked-up dim may be sharded: each device
// answers for the indices that it owns, and the others contribute nothing (a masked sum).
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/record/Scalar.h"
#include "index/Exchange.h"
#include "index/IndexParts.h"
#include "record/ShapeParts.h"

#include <algorithm>
#include <limits>

namespace dtc {
namespace {

// The looked-up dim of the operand: if sharded, the result is a masked sum (for bool: any).
uint16_t addLookedUp(const OpQuery& q, Rule& rule, Dim size, DType dtype) {
  uint16_t f =
      addFactor(rule, size, "v", FactorKind::Reduce, isBool(dtype) ? PendingKind::Any : PendingKind::Sum);
  rule.factors[f].placed = true;
  (void)q;
  return f;
}

// The contribution of a device that does not own the row: -0.0, so that the sum is bitwise the row. An index
// out of range of the global dim, whose size is an attribute of the sharded op, belongs to no device and
// reads 0.0.
void clearElement(const OpQuery& q, Tensor& t, int64_t i, int64_t index) {
  if (!isFloat(t.dtype())) return;
  const Dim global = q.sizeAttr("size");
  const bool nobodys = q.has("size") && global.isStatic() && (index < 0 || index >= global.value());
  t.setFloat(i, nobodys ? 0.0 : -0.0);
}

ElementNode within(ElementBuilder& b, ElementNode index, Dim size) {
  return b.call("and", {b.call("ge", {index, b.index(0)}), b.call("lt", {index, b.size(size)})});
}

// `index` as written; `at` with the local row.
ElementNode maskedLoad(const OpQuery& q, ElementBuilder& b, size_t operand, std::span<const ElementNode> at,
                       size_t dim, ElementNode index) {
  ElementNode x = b.load(operand, at);
  const DType dtype = q.type(operand).dtype;
  if (q.operandTypes.size() <= static_cast<size_t>(q.record->offsetOperand) || !isFloat(dtype)) return x;
  ElementNode absent = b.number(-0.0, dtype);
  if (q.has("size"))
    absent = b.call("select", {within(b, b.convert(index, DType::I64), q.sizeAttr("size")), absent,
                               b.number(0.0, dtype)});
  return b.call("select", {within(b, at[dim], q.type(operand).dims[dim]), x, absent});
}

// The sharded op records the global size of the dim.
void localizeLookup(const OpQuery& q, size_t source, size_t dim, std::span<const TypeId> localTypes,
                    AttrList& attrs) {
  const Dim size = q.type(source).dims[dim];
  if (q.has("size") || !isFloat(q.type(source).dtype) ||
      q.module->types[localTypes[source]].dims[dim] == size)
    return;
  setListed(attrs, q.module->strings.intern("size"), sizeAttr(*q.module, size));
}

// --- index_select, embedding: dim `dim` of x is replaced by the dims of the indices ---

struct Selection {
  size_t source = 0, indices = 1, dim = 0; // operand positions, and the dim of the source
};

std::optional<Selection> selectionOf(const OpQuery& q) {
  Selection s;
  if (std::string_view(q.record->operands).starts_with("indices")) {
    s.source = 1, s.indices = 0;
    if (q.type(1).rank() == 2) return s;
    if (q.diags) reportRank(q, 1, "2");
    return std::nullopt;
  }
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return std::nullopt;
  s.dim = static_cast<size_t>(*dim);
  return s;
}

bool selectRule(const OpQuery& q, Rule& rule) {
  auto s = selectionOf(q);
  if (!s) return false;
  const Type source = q.type(s->source), indices = q.type(s->indices);
  TensorMap x, n, y;
  for (size_t d = 0; d < indices.rank(); ++d)
    n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], "n" + std::to_string(d))));
  for (size_t d = 0; d < source.rank(); ++d) {
    if (d == s->dim) {
      x.dims.push_back(freeDim(addLookedUp(q, rule, source.dims[d], source.dtype)));
      // If the indices are sharded by the same axes, rows are exchanged.
      if (!n.dims.empty()) rule.factors[x.dims.back().terms[0].factor].alongside = n.dims[0].terms[0].factor;
      y.dims.insert(y.dims.end(), n.dims.begin(), n.dims.end());
    } else {
      x.dims.push_back(plainDim(addFactor(rule, source.dims[d], "i" + std::to_string(d))));
      y.dims.push_back(x.dims.back());
    }
  }
  rule.operands.resize(q.operandTypes.size());
  rule.operands[s->source] = std::move(x);
  rule.operands[s->indices] = std::move(n);
  rule.results.push_back(std::move(y));
  return true;
}

bool shardIndexSelect(ShardedOp& op, std::vector<ValueId>& results) {
  auto s = selectionOf(op.global);
  return s && shardSelect(op, results, s->source, s->indices, s->dim);
}

bool selectEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto s = selectionOf(q);
  if (!s) return false;
  const Tensor &x = *in[s->source], &n = *in[s->indices];
  const Tensor* offset = offsetOf(q, in);
  int64_t outer = 1, inner = 1, size = x.shape()[s->dim];
  for (size_t d = 0; d < s->dim; ++d) outer *= x.shape()[d];
  for (size_t d = s->dim + 1; d < x.rank(); ++d) inner *= x.shape()[d];
  int64_t count = n.numElements();
  for (int64_t k = 0; k < count; ++k) {
    int64_t row = 0;
    if (!rowOf(q, n.getInt(k), size, offset, row)) return false;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        int64_t to = (o * count + k) * inner + i;
        if (row < 0)
          clearElement(q, *out[0], to, n.getInt(k));
        else
          copyElement(*out[0], to, x, (o * size + row) * inner + i);
      }
  }
  return true;
}

uint32_t selectElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Selection s = *selectionOf(q);
  const Type source = q.type(s.source);
  size_t k = q.type(s.indices).rank();
  std::vector<ElementNode> own = ownCoordinates(b, source.rank() - 1 + k);
  auto first = own.begin() + static_cast<ptrdiff_t>(s.dim), last = first + static_cast<ptrdiff_t>(k);
  const ElementNode index = b.load(s.indices, std::vector<ElementNode>(first, last), true);
  std::vector<ElementNode> at(own.begin(), first);
  at.push_back(rowNode(q, b, index));
  at.insert(at.end(), last, own.end());
  return maskedLoad(q, b, s.source, at, s.dim, index);
}

void selectLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                    AttrList& attrs) {
  if (auto s = selectionOf(q)) localizeLookup(q, s->source, s->dim, operands, attrs);
}

// Sums the cotangents over all uses of a row.
bool selectGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  Module& m = b.module;
  const OpQuery q = queryOf(m, op, none);
  const Selection s = *selectionOf(q);
  const Expr indices(b, m.operand(op, s.indices));
  const size_t rank = q.type(s.source).rank(), k = q.type(s.indices).rank();
  std::vector<int64_t> window;
  for (size_t d = 0; d < rank - 1 + k; ++d)
    if (d < s.dim || d >= s.dim + k) window.push_back(static_cast<int64_t>(d));
  const Expr zeros(b, b.constant(0, m[m.operand(op, s.source)].type));
  dx.resize(m[op].numOperands);
  const std::array dim = {static_cast<int64_t>(s.dim)};
  dx[s.source] = scatter_slices(zeros, indices, dy[0], {},
                                {.update_window_dims = window.empty() ? ops::IntsAttr(ops::kDefault) : window,
                                 .inserted_window_dims = dim,
                                 .scatter_dims_to_operand_dims = dim,
                                 .index_vector_dim = k,
                                 .reduce = "sum"});
  return true;
}

// --- gather ---

bool gatherRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  const Type source = q.type(0), indices = q.type(1);
  if (indices.rank() != source.rank()) return reportRank(q, 1, std::to_string(source.rank()));
  TensorMap x, n;
  for (size_t d = 0; d < source.rank(); ++d) {
    std::string name = "i" + std::to_string(d);
    if (static_cast<int64_t>(d) == *dim) {
      x.dims.push_back(freeDim(addLookedUp(q, rule, source.dims[d], source.dtype)));
      n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], "n")));
      continue;
    }
    if (!(indices.dims[d] == source.dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, 1, d);
    n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], name)));
    x.dims.push_back(n.dims.back());
  }
  rule.operands = {std::move(x), n};
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(std::move(n));
  return true;
}

bool gatherEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", in[0]->rank()));
  std::vector<int64_t> strides = in[0]->strides(), from;
  const Tensor* offset = offsetOf(q, in);
  bool ok = true;
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    from.assign(at.begin(), at.end());
    ok = ok && rowOf(q, in[1]->getInt(i), in[0]->shape()[dim], offset, from[dim]);
    if (!ok) return;
    if (from[dim] < 0)
      clearElement(q, *out[0], i, in[1]->getInt(i));
    else
      copyElement(*out[0], i, *in[0], flatten(from, strides));
  });
  return ok;
}

uint32_t gatherElement(const OpQuery& q, ElementBuilder& b, size_t) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<ElementNode> at = ownCoordinates(b, q.type(0).rank());
  const ElementNode index = b.load(1, at, true);
  at[dim] = rowNode(q, b, index);
  return maskedLoad(q, b, 0, at, dim, index);
}

void gatherLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                    AttrList& attrs) {
  if (auto dim = q.dimAttr("dim", q.type(0).rank()))
    localizeLookup(q, 0, static_cast<size_t>(*dim), operands, attrs);
}

bool gatherGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Expr zeros(b, b.constant(0, m[m.operand(op, 0)].type));
  dx.resize(m[op].numOperands);
  dx[0] = scatter(zeros, m.operand(op, 1), dy[0], {.dim = m.attr(op, "dim"), .reduce = "sum"});
  return true;
}

// --- one_hot ---

bool oneHotRule(const OpQuery& q, Rule& rule) {
  addOperandFactors(q, 0, rule);
  std::vector<Dim> depth;
  Dim size = q.sizeAttr("depth");
  TensorMap y = rule.operands[0];
  y.dims.push_back(plainDim(addFactor(rule, size, "d", FactorKind::Place)));
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(std::move(y));
  return true;
}

void oneHotLocalize(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                    AttrList& attrs) {
  Dim depth[] = {q.module->types[results[0]].dims.back()};
  AttrId list = sizesAttr(*q.module, depth);
  setListed(attrs, q.module->strings.intern("depth"), q.module->attrs[list].list[0]);
}

bool oneHotEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  int64_t depth = out[0]->shape().back();
  const Tensor* offset = offsetOf(q, in);
  for (int64_t i = 0; i < in[0]->numElements(); ++i) {
    int64_t row = 0;
    if (!rowOf(q, in[0]->getInt(i), depth, offset, row)) return false;
    if (row >= 0) out[0]->setInt(i * depth + row, 1);
  }
  return true;
}

std::optional<double> oneHotNumbers(const OpQuery& q, std::string_view name) {
  if (name == "last") return static_cast<double>(q.type(0).rank());
  return std::nullopt;
}

constexpr AttrSpec kGlobalSize{"size", AttrType::Size, "",
                               "set by partition: the global size of the dim; an index out of range reads 0"};

OpRecord lookUp(const char* name, const char* summary) {
  OpRecord r = dataMovement(name, "index", summary);
  r.operands = "x, indices, offset?";
  r.operandTypes = "T, int, i32";
  r.attrs = {{"dim", AttrType::Dim}, kGlobalSize};
  r.offsetOperand = 2;
  return r;
}

} // namespace

void addIndexOps(OpRegistry& ops) {
  OpRecord& gather = ops.add(lookUp("gather", "y[i][j] = x[indices[i][j]][j] along `dim` (torch.gather)"));
  gather.rule = gatherRule;
  gather.eval = gatherEval;
  gather.element = gatherElement;
  gather.localize = gatherLocalize;
  gather.gradFn = gatherGrad;
  gather.samples = "T[5, 3], i32[4, 3] in 0..5 {dim = 0}\n"
                   "T[5, 3], i64[5, 2] in 0..3 {dim = 1}";

  addScatterOps(ops);

  OpRecord& select = ops.add(
      lookUp("index_select", "gathers rows of x along `dim` by index; a scalar index removes the dim"));
  select.rule = selectRule;
  select.eval = selectEval;
  select.element = selectElement;
  select.localize = selectLocalize;
  select.shard = shardIndexSelect;
  select.gradFn = selectGrad;
  select.samples = "T[5, 3], i32[4] in 0..5 {dim = 0}\n"
                   "T[5, 3], i32[2, 3] in 0..3 {dim = 1}\n"
                   "T[5, 3], i32[] in 0..5 {dim = 0}\n"
                   "T[2, 5], i32[11, 2] in 0..2 {dim = 1}";

  OpRecord& embedding = ops.add(lookUp("embedding", "lookup of table rows by index"));
  embedding.operands = "indices, table, offset?";
  embedding.operandTypes = "int, T, i32";
  embedding.attrs = {kGlobalSize};
  embedding.rule = selectRule;
  embedding.through = {moving(0b010)};
  embedding.eval = selectEval;
  embedding.element = selectElement;
  embedding.localize = selectLocalize;
  embedding.shard = shardIndexSelect;
  embedding.gradFn = selectGrad;
  embedding.samples = "i32[5] in 0..6, T[6, 3]\n"
                      "u8[2, 3] in 0..5, T[5, 4]";

  OpRecord& oneHot = ops.add(
      {.name = "one_hot", .family = "index", .summary = "1 at the index along a new last dim, 0 elsewhere"});
  oneHot.operands = "indices, offset?";
  oneHot.operandTypes = "int, i32";
  oneHot.attrs = {{"depth", AttrType::Size}, {"dtype", AttrType::DTypeName}};
  oneHot.rule = oneHotRule;
  oneHot.resultType = OpRecord::ResultType::AttrDType;
  oneHot.offsetOperand = 1;
  oneHot.scalar = "select(a == index($last) + b, 1, 0)";
  oneHot.derive = oneHotNumbers;
  oneHot.eval = oneHotEval;
  oneHot.localize = oneHotLocalize;
  oneHot.gradNone = true;
  oneHot.samples = "i32[5] in 0..4 {depth = 4, dtype = T}\nu8[2, 3] in 0..5 {depth = 5, dtype = T}";
  addSortOps(ops);
  addSortDigitOps(ops);
  addIndexSliceOps(ops);
}

} // namespace dtc
