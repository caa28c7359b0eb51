// Gather, scatter, sorting, and what else takes indices. Negative indices count from the end.
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

Expr wrapped(Expr indices, Dim size) { return wrappedIndices(indices, size); }

ImportResults gatherRow(OnnxContext& c) {
  const Expr x = c.in(0), indices = c.in(1);
  const int64_t axis = c.dim(c.integer("axis", 0), x.rank());
  if (x.rank() == 0) c.fail("has a scalar as its operand");
  if (const auto sizes = c.sizesIf(0); sizes && x.rank() == 1 && indices.rank() <= 1)
    if (const Tensor* at = c.knownIf(1)) {
      std::vector<ImportInt> out;
      const auto n = static_cast<int64_t>(sizes->size());
      for (int64_t i = 0; i < at->numElements(); ++i) {
        const int64_t k = at->getInt(i) < 0 ? at->getInt(i) + n : at->getInt(i);
        if (k < 0 || k >= n) c.fail("has an index that is out of range");
        out.push_back((*sizes)[static_cast<size_t>(k)]);
      }
      c.setSizes(std::move(out));
    }
  const auto split = static_cast<size_t>(axis);
  Dims shape(x.dims().begin(), x.dims().begin() + axis);
  shape.insert(shape.end(), indices.dims().begin(), indices.dims().end());
  shape.insert(shape.end(), x.dims().begin() + axis + 1, x.dims().end());
  const Expr flat = reshapeTo(wrapped(indices, x.dims().at(split)), {elementsOf(c.b, indices.dims())});
  return c.moving(reshapeTo(index_select(x, flat, {.dim = axis}), shape));
}

// x without what lies beyond the indices in the other dims.
Expr limited(OnnxContext& c, Expr x, const Dims& dims, int64_t axis) {
  if (dims.size() != x.rank()) c.fail("has indices of another rank than its operand");
  for (size_t i = 0; i < dims.size(); ++i)
    if (static_cast<int64_t>(i) != axis && dims[i] != x.dims().at(i))
      x = sliceOf(x, static_cast<int64_t>(i), 0, dims[i]);
  return x;
}

ImportResults gatherElements(OnnxContext& c) {
  const Expr x = c.in(0), indices = c.in(1);
  if (x.rank() == 0) c.fail("has a scalar as its operand");
  const int64_t axis = c.dim(c.integer("axis", 0), x.rank());
  const Expr at = wrapped(indices, x.dims().at(static_cast<size_t>(axis)));
  return c.moving(gather(limited(c, x, indices.dims(), axis), at, {.dim = axis}));
}

// Indices whose last dim has a component for each of `sizes`.
Expr wrappedComponents(OnnxContext& c, Expr indices, std::span<const Dim> sizes) {
  Tensor t(indices.dtype(), {static_cast<int64_t>(sizes.size())});
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].isStatic()) return indices;
    t.setInt(static_cast<int64_t>(i), sizes[i].value());
  }
  return select(lt(indices, 0), indices + constantOf(c.b, t), indices);
}

int64_t lastSize(OnnxContext& c, Expr indices) {
  if (indices.rank() == 0 || !indices.dims().back().isStatic())
    c.fail("has indices without a static last dim");
  return indices.dims().back().value();
}

ImportResults gatherNd(OnnxContext& c) {
  const Expr x = c.in(0), indices = c.in(1);
  const int64_t batch = c.integer("batch_dims", 0), depth = lastSize(c, indices);
  const auto rank = static_cast<int64_t>(x.rank()), outer = static_cast<int64_t>(indices.rank()) - 1;
  if (batch < 0 || batch > outer || batch + depth > rank)
    c.fail("has indices with more components than its operand has dims");
  const std::vector<int64_t> batches = allDims(static_cast<size_t>(batch)),
                             picked = allDims(static_cast<size_t>(batch + depth), static_cast<size_t>(batch));
  Dims window(static_cast<size_t>(batch + depth), Dim(1));
  window.insert(window.end(), x.dims().begin() + batch + depth, x.dims().end());
  const std::vector<int64_t> offsets =
      allDims(static_cast<size_t>(outer + rank - batch - depth), static_cast<size_t>(outer));
  const Expr at = wrappedComponents(
      c, indices, std::span(x.dims()).subspan(static_cast<size_t>(batch), static_cast<size_t>(depth)));
  return c.moving(gather_slices(x, at,
                                {.offset_dims = offsets,
                                 .collapsed_slice_dims = picked,
                                 .operand_batching_dims = batches,
                                 .start_indices_batching_dims = batches,
                                 .start_index_map = picked,
                                 .index_vector_dim = outer,
                                 .slice_sizes = window}));
}

std::string reduction(OnnxContext& c) {
  const std::string name = c.text("reduction", "none");
  static constexpr std::pair<const char*, const char*> names[] = {
      {"none", "set"}, {"add", "sum"}, {"mul", "prod"}, {"max", "max"}, {"min", "min"}};
  for (const auto& [theirs, ours] : names)
    if (name == theirs) return ours;
  c.fail("has the unsupported reduction '" + name + "'");
}

Expr scattered(Expr x, Expr indices, Expr updates, int64_t depth, const std::string& reduce) {
  const auto outer = static_cast<int64_t>(indices.rank()) - 1;
  const std::vector<int64_t> picked = allDims(static_cast<size_t>(depth)),
                             windows = allDims(updates.rank(), static_cast<size_t>(outer));
  return scatter_slices(x, indices, updates, {},
                        {.update_window_dims = windows,
                         .inserted_window_dims = picked,
                         .scatter_dims_to_operand_dims = picked,
                         .index_vector_dim = outer,
                         .reduce = reduce});
}

ImportResults scatterNd(OnnxContext& c) {
  const Expr x = c.in(0), indices = c.in(1);
  const int64_t depth = lastSize(c, indices);
  if (depth > static_cast<int64_t>(x.rank()))
    c.fail("has indices with more components than its operand has dims");
  const Expr at = wrappedComponents(c, indices, std::span(x.dims()).first(static_cast<size_t>(depth)));
  return c.moving(scattered(x, at, c.in(2), depth, reduction(c)));
}

ImportResults scatterElements(OnnxContext& c) {
  const Expr x = c.in(0), updates = c.in(2);
  if (x.rank() == 0) c.fail("has a scalar as its operand");
  const int64_t axis = c.dim(c.integer("axis", 0), x.rank());
  const Expr indices = wrapped(c.in(1), x.dims().at(static_cast<size_t>(axis)));
  if (indices.rank() != x.rank()) c.fail("has indices of another rank than its operand");
  const std::string reduce = reduction(c);
  bool full = true;
  for (size_t i = 0; i < x.rank(); ++i)
    full &= static_cast<int64_t>(i) == axis || x.dims().at(i) == indices.dims().at(i);
  if (full) return c.moving(scatter(x, indices, updates, {.dim = axis, .reduce = reduce}));
  std::vector<Expr> components; // all coordinates
  for (size_t i = 0; i < x.rank(); ++i) {
    Expr one = indices;
    if (static_cast<int64_t>(i) != axis)
      one = iota(c.b, checkedType(c.b, indices.dtype(), indices.dims()), {.dim = static_cast<int64_t>(i)});
    components.push_back(one);
  }
  const Expr at = stack(c.b, components, static_cast<int64_t>(x.rank()));
  return c.moving(scattered(x, at, updates, static_cast<int64_t>(x.rank()), reduce));
}

// present[b, write[b] + i] = update[b, i] along an axis, of a cache of keys or values.
ImportResults tensorScatter(OnnxContext& c) {
  const Expr cache = c.in(0), update = c.in(1);
  if (cache.rank() < 2 || update.rank() != cache.rank())
    c.fail("has operands of different ranks, or of rank below 2");
  const int64_t axis = c.dim(c.integer("axis", -2), cache.rank());
  if (axis == 0) c.fail("has the batch dim as its axis");
  const std::string mode = c.text("mode", "linear");
  const Expr to = moved(cache, axis, 1), from = moved(update, axis, 1);
  const Dims places{from.dims().at(0), from.dims().at(1)};
  const TypeId type = checkedType(c.b, DType::I64, places);
  Expr at = iota(c.b, type, {.dim = 1});
  if (c.has(2)) at = at + withDim(c.in(2).as(DType::I64), 1);
  if (mode == "circular") {
    if (!to.dims().at(1).isStatic()) c.fail("writes circularly into a symbolic size");
    at = mod(at, to.dims().at(1).value());
  }
  const Expr both = stack(c.b, {iota(c.b, type, {.dim = 0}), at}, 2);
  return moved(scattered(to, both, from, 2, "set"), 1, axis);
}

ImportResults reverseSequence(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t time = c.dim(c.integer("time_axis", 0), x.rank()),
                batch = c.dim(c.integer("batch_axis", 1), x.rank());
  Dims along(x.rank(), Dim(1));
  along[static_cast<size_t>(batch)] = x.dims().at(static_cast<size_t>(batch));
  const Expr lengths = reshapeTo(c.in(1).as(DType::I64), along);
  const Expr t = iota(c.b, checkedType(c.b, DType::I64, x.dims()), {.dim = time});
  return gather(x, select(lt(t, lengths), lengths - 1 - t, t), {.dim = time});
}

ImportResults oneHot(OnnxContext& c) {
  const Expr indices = c.in(0), values = c.in(2);
  const auto depth = c.knownReals(1, "the depth");
  if (depth.size() != 1 || depth[0] < 0 || depth[0] > 1e9) c.fail("has a depth that is out of range");
  const auto size = static_cast<int64_t>(depth[0]);
  const int64_t axis = c.dim(c.integer("axis", -1), indices.rank() + 1);
  Expr at = indices.as(DType::I64);
  at = withDim(select(lt(at, 0), at + size, at), axis);
  Dims classes(indices.rank() + 1, Dim(1));
  classes[static_cast<size_t>(axis)] = size;
  const Expr hit = eq(at, reshapeTo(counted(c.b, size, DType::I64), classes));
  const Expr off = reshapeTo(sliceOf(values, 0, 0, 1), {}), on = reshapeTo(sliceOf(values, 0, 1, 2), {});
  return select(hit, on, off);
}

ImportResults topK(OnnxContext& c) {
  const Expr x = c.in(0);
  if (x.rank() == 0) c.fail("has a scalar as its operand");
  const auto [y, indices] = topk(x, {.k = c.knownInt(1, "the number of elements"),
                                     .dim = c.dim(c.integer("axis", -1), x.rank()),
                                     .descending = c.integer("largest", 1) != 0});
  return {y, indices.as(DType::I64)};
}

// Of a value that is known at import: its size is, too.
ImportResults nonZero(OnnxContext& c) {
  const Tensor* x = &c.known(0, "its operand (on which the size of the result depends)");
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x->numElements(); ++i)
    if (isFloat(x->dtype()) ? x->getFloat(i) != 0 : x->getInt(i) != 0) found.push_back(i);
  const auto count = static_cast<int64_t>(found.size());
  Tensor out(DType::I64, {static_cast<int64_t>(x->rank()), count});
  const auto strides = x->strides();
  for (size_t d = 0; d < x->rank(); ++d)
    for (int64_t i = 0; i < count; ++i)
      out.setInt(static_cast<int64_t>(d) * count + i,
                 found[static_cast<size_t>(i)] / strides.at(d) % x->shape()[d]);
  return constantOf(c.b, out);
}

ImportResults compress(OnnxContext& c) {
  const Tensor* condition = &c.known(1, "the condition (on which the size of the result depends)");
  Expr x = c.in(0);
  const bool flat = !c.has("axis");
  if (flat) x = reshapeTo(x, {elementsOf(c.b, x.dims())});
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition->numElements(); ++i)
    if (condition->getInt(i)) kept.push_back(i);
  Tensor indices(DType::I64, {static_cast<int64_t>(kept.size())});
  for (size_t i = 0; i < kept.size(); ++i) indices.setInt(static_cast<int64_t>(i), kept[i]);
  return index_select(x, constantOf(c.b, indices), {.dim = flat ? 0 : c.dim(c.integer("axis"), x.rank())});
}

constexpr OnnxRow kIndicesRows[] = {
    {"Gather", gatherRow, 1},
    {"GatherElements", gatherElements, 11},
    {"GatherND", gatherNd, 12},
    {"Scatter", scatterElements, 9},
    {"ScatterElements", scatterElements, 11},
    {"ScatterND", scatterNd, 11},
    {"TensorScatter", tensorScatter},
    {"ReverseSequence", reverseSequence, 10},
    {"OneHot", oneHot, 9},
    {"TopK", topK, 11},
    {"NonZero", nonZero},
    {"Compress", compress, 11},
};

} // namespace

std::span<const OnnxRow> indexRows() { return kIndicesRows; }

} // namespace dtc::onnx
