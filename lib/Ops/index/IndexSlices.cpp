// gather_slices scatter_slices: windows at indices, with the semantics of StableHLO's gather and scatter.
#include "index/IndexSlices.h"
#include "index/Exchange.h"

#include <algorithm>
#include <utility>

namespace dtc {
namespace {

// --- rules ---

// The factors of operand, indices and window tensor. `updates`: for a scatter, whose operand is written where
// it is sharded.
void sliceFactors(const OpQuery& q, const SliceDims& s, const ScatterKind* scatter, Rule& rule, TensorMap& x,
                  TensorMap& n, TensorMap& w) {
  const Type operand = q.type(0), indices = q.type(1);
  std::vector<int> batched(indices.rank(), -1);
  for (size_t d = 0; d < s.operand.size(); ++d)
    if (s.operand[d].batch >= 0) batched[static_cast<size_t>(s.operand[d].batch)] = static_cast<int>(d);
  x.dims.resize(operand.rank());
  w.dims.resize(s.result.size());
  for (size_t d = 0; d < indices.rank(); ++d) {
    if (s.indices[d] < 0) {
      n.dims.push_back(freeDim(addUnsharded(rule, indices.dims[d], "v")));
      continue;
    }
    FactorKind kind = FactorKind::Pass;
    PendingKind reduce = PendingKind::None;
    if (scatter && batched[d] < 0) {
      reduce = scatter->reduce;
      kind = reduce == PendingKind::None ? FactorKind::Whole : FactorKind::Reduce;
    }
    const uint16_t f = addFactor(rule, indices.dims[d], "n" + std::to_string(d), kind, reduce);
    if (kind == FactorKind::Reduce) rule.joins.push_back({0, f});
    n.dims.push_back(plainDim(f));
    w.dims[static_cast<size_t>(s.indices[d])] = n.dims.back();
    if (batched[d] >= 0) x.dims[static_cast<size_t>(batched[d])] = n.dims.back();
  }
  for (size_t d = 0; d < s.operand.size(); ++d) {
    const SliceDims::OperandDim& o = s.operand[d];
    if (o.batch >= 0) continue;
    const std::string name = "i" + std::to_string(d);
    if (o.full) {
      x.dims[d] = plainDim(addFactor(rule, operand.dims[d], name));
      w.dims[static_cast<size_t>(o.window)] = x.dims[d];
      continue;
    }
    x.dims[d] = scatter && o.placed() ? plainDim(addFactor(rule, operand.dims[d], name, FactorKind::Place))
                                      : freeDim(addUnsharded(rule, operand.dims[d], name));
    if (o.window >= 0)
      w.dims[static_cast<size_t>(o.window)] = freeDim(addUnsharded(rule, o.size, "w" + std::to_string(d)));
  }
}

bool gatherSlicesRule(const OpQuery& q, Rule& rule) {
  SliceDims s;
  if (!sliceDims(q, s)) return false;
  TensorMap x, n, y;
  sliceFactors(q, s, nullptr, rule, x, n, y);
  rule.operands = {std::move(x), std::move(n)};
  rule.results.push_back(std::move(y));
  return true;
}

void gatherSlicesLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                          AttrList& attrs) {
  SliceDims s;
  if (!sliceDims(q, s)) return;
  std::vector<Dim> sizes;
  for (size_t d = 0; d < s.operand.size(); ++d)
    sizes.push_back(s.operand[d].full ? q.module->types[operands[0]].dims[d] : s.operand[d].size);
  setListed(attrs, q.module->strings.intern("slice_sizes"), sizesAttr(*q.module, sizes));
}

bool scatterSlicesRule(const OpQuery& q, Rule& rule) {
  SliceDims s;
  const ScatterKind* kind = scatterKind(q, true);
  if (!kind || !combinesComplex(q, *kind) || !sliceDims(q, s)) return false;
  TensorMap x, n, u;
  sliceFactors(q, s, kind, rule, x, n, u);
  // Rows whose indices are sharded like the updates are sent to the owners.
  if (const auto row = scatteredRows(q, s); row && kind->reduce != PendingKind::None)
    rule.factors[x.dims[static_cast<size_t>(*row)].terms[0].factor].alongside = n.dims[0].terms[0].factor;
  rule.results.push_back(x);
  rule.operands = {std::move(x), std::move(n), std::move(u)};
  rule.operands.resize(q.operandTypes.size());
  return true;
}

// Operand dims that windows do not span follow to the result.
bool scatterFollow(const OpQuery& q, Rule& rule) {
  if (!scatterSlicesRule(q, rule)) return false;
  for (size_t d = 0; d < rule.results[0].dims.size(); ++d)
    if (rule.results[0].dims[d].form == DimMap::Free)
      rule.results[0].dims[d] = rule.operands[0].dims[d] =
          plainDim(addFactor(rule, q.type(0).dims[d], "i" + std::to_string(d)));
  return true;
}

// --- evaluation ---

// The position in the operand of an element of the window tensor.
class SlicePositions {
public:
  SlicePositions(const OpQuery& q, const SliceDims& s, std::span<const Tensor* const> in)
      : s_(s), operand_(*in[0]), indices_(*in[1]), strides_(indices_.strides()), clamps_(isGatherSlices(q)) {
    size_t next = 3;
    for (size_t d = 0; d < s.operand.size(); ++d) {
      offsets_.push_back(!clamps_ && s.operand[d].placed() && next < in.size() ? in[next++]->getInt(0) : 0);
    }
  }
  // False: out of bounds.
  bool of(std::span<const int64_t> at, std::vector<int64_t>& position) const {
    position.assign(s_.operand.size(), 0);
    int64_t base = 0;
    for (size_t d = 0; d < s_.indices.size(); ++d)
      if (s_.indices[d] >= 0) base += at[static_cast<size_t>(s_.indices[d])] * strides_[d];
    for (size_t d = 0; d < position.size(); ++d) {
      const SliceDims::OperandDim& o = s_.operand[d];
      const int64_t size = operand_.shape()[d];
      if (o.indexed >= 0) position[d] = index(base, o);
      if (clamps_ && o.indexed >= 0)
        position[d] = std::clamp<int64_t>(position[d], 0, o.full ? 0 : size - o.size.value());
      if (o.batch >= 0) position[d] = at[static_cast<size_t>(s_.indices[static_cast<size_t>(o.batch)])];
      if (o.window >= 0) position[d] += at[static_cast<size_t>(o.window)];
      position[d] -= offsets_[d];
      if (position[d] < 0 || position[d] >= size) return false;
    }
    return true;
  }

private:
  [[nodiscard]] int64_t index(int64_t base, const SliceDims::OperandDim& o) const {
    const auto vector = static_cast<size_t>(s_.vector);
    const int64_t component = vector < strides_.size() ? o.indexed * strides_[vector] : 0;
    const int64_t i = indices_.getInt(base + component);
    return indices_.dtype() == DType::U64 && i < 0 ? int64_t(1) << 62 : i;
  }
  const SliceDims& s_;
  const Tensor &operand_, &indices_;
  std::vector<int64_t> strides_, offsets_;
  bool clamps_;
};

// The dims of the updates, those of the indices first.
std::vector<size_t> updateOrder(const SliceDims& s) {
  std::vector<size_t> order;
  std::vector<bool> isWindow(s.result.size());
  for (const SliceDims::OperandDim& o : s.operand)
    if (o.window >= 0) isWindow[static_cast<size_t>(o.window)] = true;
  for (const bool window : {false, true})
    for (size_t w = 0; w < s.result.size(); ++w)
      if (isWindow[w] == window) order.push_back(w);
  return order;
}

bool gatherSlicesEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  SliceDims s;
  if (!sliceDims(q, s)) return false;
  const SlicePositions positions(q, s, in);
  std::vector<int64_t> from;
  const std::vector<int64_t> strides = in[0]->strides();
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    if (positions.of(at, from)) copyElement(*out[0], i, *in[0], flatten(from, strides));
  });
  return true;
}

bool scatterSlicesEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  SliceDims s;
  const ScatterKind* kind = scatterKind(q, true);
  if (!kind || !sliceDims(q, s)) return false;
  const SlicePositions positions(q, s, in);
  Tensor sum = widened(q, *in[0]);
  const Tensor updates = widened(q, *in[2]);
  std::vector<int64_t> to;
  const std::vector<int64_t> strides = sum.strides();
  // Applies the updates in order, each with its full window.
  const std::vector<size_t> order = updateOrder(s);
  std::vector<int64_t> walked, at(order.size());
  for (size_t w : order) walked.push_back(updates.shape()[w]);
  const std::vector<int64_t> own = updates.strides();
  forEachElement(walked, [&](std::span<const int64_t> step, int64_t) {
    for (size_t i = 0; i < order.size(); ++i) at[order[i]] = step[i];
    if (positions.of(at, to)) combineInto(sum, flatten(to, strides), updates, flatten(at, own), *kind);
  });
  narrowInto(*out[0], sum);
  return true;
}

// --- kernels ---

ElementNode indexNode(const OpQuery& q, ElementBuilder& b, const SliceDims& s, const SliceDims::OperandDim& o,
                      std::span<const ElementNode> at) {
  std::vector<ElementNode> where;
  for (int d : s.indices) where.push_back(d >= 0 ? at[static_cast<size_t>(d)] : b.index(o.indexed));
  const ElementNode i = b.convert(b.load(1, where, true), DType::I64);
  if (q.type(1).dtype != DType::U64) return i;
  return b.call("select", {b.call("lt", {i, b.index(0)}), b.index(int64_t(1) << 62), i});
}

uint32_t gatherSlicesElement(const OpQuery& q, ElementBuilder& b, size_t) {
  SliceDims s;
  if (!sliceDims(q, s)) return 0;
  const Type x = q.type(0);
  const std::vector<ElementNode> own = ownCoordinates(b, s.result.size());
  std::vector<ElementNode> from;
  for (size_t d = 0; d < s.operand.size(); ++d) {
    const SliceDims::OperandDim& o = s.operand[d];
    ElementNode at = b.index(0);
    if (o.batch >= 0) at = own[static_cast<size_t>(s.indices[static_cast<size_t>(o.batch)])];
    if (o.indexed >= 0 && !o.full) {
      const ElementNode last = b.sub(b.size(x.dims[d]), b.size(o.size));
      at = b.call("max", {b.call("min", {indexNode(q, b, s, o, own), last}), b.index(0)});
    }
    if (o.window >= 0) at = b.add(at, own[static_cast<size_t>(o.window)]);
    from.push_back(at);
  }
  return b.load(0, from, true);
}

// Applies the updates in order to a copy of x, in place if possible.
bool scatterSlicesStores(const OpQuery& q, ElementBuilder& b) {
  SliceDims s;
  const ScatterKind* kind = scatterKind(q, true);
  if (!kind || !sliceDims(q, s)) return false;
  const Type x = q.type(0);
  b.begin();
  std::vector<ElementNode> at, from(s.result.size()), to;
  for (Dim d : x.dims) at.push_back(b.axis(d));
  b.copy(0, at);
  std::vector<bool> shared(s.result.size());
  for (size_t d = 0; d < s.operand.size(); ++d) { // dims shared by updates and x
    const SliceDims::OperandDim& o = s.operand[d];
    if (o.batch < 0 && !o.full) continue;
    const auto w = static_cast<size_t>(o.full ? o.window : s.indices[static_cast<size_t>(o.batch)]);
    from[w] = at[d];
    shared[w] = true;
  }
  for (size_t w : updateOrder(s))
    if (!shared[w]) from[w] = b.steps(s.result[w]);
  ElementNode inside = ElementBuilder::kAlways;
  size_t offset = 3;
  for (size_t d = 0; d < s.operand.size(); ++d) {
    const SliceDims::OperandDim& o = s.operand[d];
    to.push_back(at[d]);
    if (o.batch >= 0 || o.full) continue;
    to[d] = o.indexed >= 0 ? indexNode(q, b, s, o, from) : b.index(0);
    if (o.window >= 0) to[d] = b.add(to[d], from[static_cast<size_t>(o.window)]);
    if (o.placed() && offset < q.operandTypes.size())
      to[d] = b.sub(to[d], b.convert(b.load(offset++, {}, true), DType::I64));
    const ElementNode test =
        b.call("and", {b.call("ge", {to[d], b.index(0)}), b.call("lt", {to[d], b.size(x.dims[d])})});
    inside = inside == ElementBuilder::kAlways ? test : b.call("and", {inside, test});
  }
  b.store(0, to, b.load(2, from, true), inside, kind->combine);
  return true;
}

// A scatter with one index for each element of the batch dims, as the gradient of a lookup in each row is.
bool scatterOne(Builder& b, OpId op, const OpQuery& q, const ScatterKind& kind,
                std::vector<ValueId>& results) {
  Module& m = b.module;
  const Expr x(b, m.operand(op, 0)), indices(b, m.operand(op, 1)), updates(b, m.operand(op, 2));
  SliceDims s;
  if (m[op].numOperands != 3 || !sliceDims(q, s)) return false;
  std::vector<Dim> index(x.rank(), Dim(1)), update = x.dims();
  std::optional<size_t> dim;
  int lastBatch = -1, lastWindow = -1; // reshapes keep the order of elements
  for (size_t d = 0; d < s.operand.size(); ++d) {
    const SliceDims::OperandDim& o = s.operand[d];
    const int window = o.batch >= 0 ? s.indices[static_cast<size_t>(o.batch)] : o.window;
    if (o.batch < 0 && !o.full) {
      if (dim || o.indexed < 0 || o.size != Dim(1)) return false;
      dim = d;
      update[d] = Dim(1);
      continue;
    }
    if (o.batch >= 0) index[d] = x.dims()[d];
    if (window <= lastWindow || (o.batch >= 0 && o.batch <= lastBatch)) return false;
    lastWindow = window;
    if (o.batch >= 0) lastBatch = o.batch;
  }
  if (!dim) return false;
  const auto sizeOf = [](const std::vector<Dim>& dims) {
    std::vector<Dim> known;
    for (Dim n : dims)
      if (n != Dim(1)) known.push_back(n);
    return known;
  };
  if (sizeOf(indices.dims()) != sizeOf(index) || sizeOf(updates.dims()) != sizeOf(update)) return false;
  const Expr chosen = scatteredChoice(x, *dim, reshape(indices, index), reshape(updates, update), kind);
  if (!chosen.valid()) return false;
  results.push_back(chosen);
  return true;
}

// Sums and products of narrow floats are computed in f32, and rounded once.
bool scatterDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery query = queryOf(m, op, none);
  const ScatterKind* kind = scatterKind(query, true);
  if (kind && scatterOne(b, op, query, *kind, results)) return true;
  const DType dtype = m.typeOf(m.operand(op, 0)).dtype;
  const bool rounds = kind && (kind->reduce == PendingKind::Sum || kind->reduce == PendingKind::Prod);
  if (!isNarrowFloat(dtype) || !rounds) return true;
  std::vector<ValueId> operands(m.operands(op).begin(), m.operands(op).end());
  for (const size_t i : {size_t(0), size_t(2)}) operands[i] = convert(Expr(b, operands[i]), DType::F32);
  const AttrList before = std::exchange(b.common, m[op].attrs);
  const Expr wide(b, m.result(b.op(m[op].kind, operands)));
  b.common = before;
  results.push_back(convert(wide, dtype));
  return true;
}

OpRecord gatherRecord() {
  OpRecord gather{.name = "gather_slices",
                  .family = "index",
                  .summary = "windows of x at the indices, clamped to be within x; same as StableHLO's "
                             "`gather`"};
  gather.operands = "x, indices";
  gather.operandTypes = "T, int";
  gather.attrs = {
      {"offset_dims", AttrType::Ints, "", "the dims of the result that are window dims"},
      {"collapsed_slice_dims", AttrType::Ints, "", "the dims of x, of window size 1, that are dropped"},
      {"operand_batching_dims", AttrType::Ints, "",
       "the dims of x that are batched with dims of the indices"},
      {"start_indices_batching_dims", AttrType::Ints, "", "those dims of the indices"},
      {"start_index_map", AttrType::Ints, "", "the dim of x for each component of an index"},
      {"index_vector_dim", AttrType::Int, nullptr, "the dim of the indices that holds the components"},
      {"slice_sizes", AttrType::Sizes, nullptr, "the windows' size in each dim of x"}};
  gather.rule = gatherSlicesRule;
  gather.localize = gatherSlicesLocalize;
  gather.eval = gatherSlicesEval;
  gather.complex = OpRecord::ComplexForm::Planes;
  gather.element = gatherSlicesElement;
  gather.gradFn = gatherSlicesGrad;
  gather.through = {moving()};
  gather.flopsPerPoint = 0;
  gather.samples =
      "T[5, 3], i32[4, 1] in -1..6 {offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
      "index_vector_dim = 1, slice_sizes = [1, 3]}\n"
      "T[5, 4], i32[2, 3] in -1..6 {offset_dims = [0, 2], start_index_map = [1, 0], index_vector_dim = 0, "
      "slice_sizes = [2, 3]}\n"
      "T[3, 5], i32[3, 2] in 0..5 {operand_batching_dims = [0], start_indices_batching_dims = [0], "
      "collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 2, slice_sizes = [1, 1]}";
  return gather;
}

OpRecord scatterSlicesRecord() {
  OpRecord scatter{
      .name = "scatter_slices",
      .family = "index",
      .summary =
          "x with windows written, or combined by `reduce`, at the indices; updates that are out of bounds "
          "are skipped; same as StableHLO's `scatter`"};
  scatter.operands = "x, indices, updates, offsets...";
  scatter.operandTypes = "T, int, T, i32";
  scatter.attrs = {
      {"update_window_dims", AttrType::Ints, "", "the dims of the updates that are window dims"},
      {"inserted_window_dims", AttrType::Ints, "", "the dims of x that are dropped from the windows"},
      {"input_batching_dims", AttrType::Ints, "", "the dims of x that are batched with dims of the indices"},
      {"scatter_indices_batching_dims", AttrType::Ints, "", "those dims of the indices"},
      {"scatter_dims_to_operand_dims", AttrType::Ints, "", "the dim of x for each component of an index"},
      {"index_vector_dim", AttrType::Int, nullptr, "the dim of the indices that holds the components"},
      {"reduce", AttrType::String, "set",
       "\"set\" \"sum\" \"prod\" \"max\" \"min\"; for integers and bools also \"or\" \"and\" \"xor\""}};
  scatter.rule = scatterSlicesRule;
  scatter.follow = scatterFollow;
  scatter.offsetOperand = 3;
  scatter.eval = scatterSlicesEval;
  scatter.complex = OpRecord::ComplexForm::Planes;
  scatter.stores = scatterSlicesStores;
  scatter.rewrites = 0;
  scatter.decompose = scatterDecompose;
  scatter.shard = shardScatterRows;
  scatter.gradFn = scatterSlicesGrad;
  scatter.through = scatterThrough();
  scatter.throughWhen = scatterThroughWhen;
  scatter.samples =
      "T[5, 3], i32[4, 1] in -1..6, T[4, 3] {update_window_dims = [1], inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = 1, reduce = \"sum\"}\n"
      "T[5, 4], i32[2, 3] in -1..6, T[2, 3, 3] {update_window_dims = [0, 2], scatter_dims_to_operand_dims = "
      "[1, 0], "
      "index_vector_dim = 0}\n"
      "T[3, 5], i32[3, 2] in 0..5, T[3, 2] {input_batching_dims = [0], scatter_indices_batching_dims = [0], "
      "inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 2, reduce = "
      "\"max\"}\n"
      "T[5], i32[3] in 0..5, T[3] {inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
      "index_vector_dim = 1, "
      "reduce = \"prod\"}\n"
      "T[3, 2], i32[11] in 0..3, T[11, 2] {update_window_dims = [1], inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = 1, reduce = \"sum\"}\n"
      "T[2, 7], i32[3, 8] in 0..2, T[2, 3, 8] {update_window_dims = [0], inserted_window_dims = [1], "
      "scatter_dims_to_operand_dims = [1], index_vector_dim = 2, reduce = \"max\"}";
  return scatter;
}

} // namespace

void addIndexSliceOps(OpRegistry& ops) {
  ops.add(gatherRecord());
  ops.add(scatterSlicesRecord());
}

} // namespace dtc
