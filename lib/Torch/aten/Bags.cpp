// Rows in groups whose sizes or offsets are runtime values: bags of embeddings, segments, masks.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::bags {
namespace {

// embedding_bag(weight, indices, offsets, ...): a sum, mean or max of rows per bag.
struct Bags {
  int64_t count = 0;
  Expr member; // [bag, i]: index i belongs to the bag and counts
};

Bags bagsOf(ImportContext& c, Expr index) {
  if (!c.has("offsets") || index.rank() != 1) c.fail("has no offsets");
  const Expr offsets = c.tensor("offsets").as(DType::I32);
  const int64_t padding = c.integer("padding_idx", -1);
  const int64_t n = staticDims(c.b, index.dims())[0];
  int64_t bags = staticDims(c.b, offsets.dims())[0];
  if (c.flag("include_last_offset", false)) --bags;
  const Expr place = reshapeTo(counted(c.b, n), {1, n}),
             first = reshapeTo(sliceOf(offsets, 0, 0, bags), {bags, 1});
  const Expr end =
      c.flag("include_last_offset", false)
          ? sliceOf(offsets, 0, 1, bags + 1)
          : concatOf(c.b,
                     {sliceOf(offsets, 0, 1, bags), filled(c.b, DType::I32, {1}, static_cast<double>(n))}, 0);
  Expr member = (place >= first) & (place < reshapeTo(end, {bags, 1}));
  if (padding >= 0) member = member & reshapeTo(ops::ne(index, padding), {1, n});
  return {bags, member};
}

ImportResults embeddingBag(ImportContext& c) {
  const Expr table = c.tensor("weight"), index = c.tensor("indices");
  const int64_t mode = c.integer("mode", 0);
  const Bags bags = bagsOf(c, index);
  const Expr picked = ops::embedding(indices(index, table.dims().at(0)), table);
  const Expr in = bags.member.as(table.dtype());
  const std::vector<int64_t> one{1};
  Expr y;
  if (mode == 2) {
    const Expr each =
        ops::select(withDim(bags.member, 2),
                    broadcastTo(withDim(picked, 0), {bags.count, index.dims()[0], table.dims().at(1)}),
                    -std::numeric_limits<double>::infinity());
    const Expr best = ops::max(each, ops::MaxArgs{.dims = one});
    y = ops::select(ops::is_inf(best), 0.0, best);
  } else {
    const Expr weights = c.has("per_sample_weights")
                             ? in * reshapeTo(c.tensor("per_sample_weights"), {1, index.dims()[0]})
                             : in;
    y = ops::matmul(weights, picked);
    if (mode == 1) y = y / ops::max(ops::sum(in, {.dims = one, .keepdim = true}), 1.0);
  }
  return y; // the other results serve the gradient
}

// The number of true elements before each one.
Expr positionsOf(Expr flat) { return ops::cumsum(flat.as(DType::I32), {.dim = 0, .exclusive = true}); }

// The k-th element of the result is that of the k-th true element of the mask; 0 beyond them.
Expr collected(Builder& b, Expr flat, Expr values, int64_t size) {
  const Expr place = positionsOf(flat);
  const Expr counts = flat & (place < size);
  const Expr to = ops::select(counts, place, size); // the others go to an element that is removed
  const Expr zero = filled(b, values.dtype(), {Dim(size + 1)}, 0);
  return sliceOf(ops::scatter(zero, to, values, {.dim = 0, .reduce = "sum"}), 0, 0, size);
}

ImportResults maskedScatterBackward(ImportContext& c) {
  const Expr g = c.tensor("grad_output"), mask = c.tensor("mask");
  const Dims dims = broadcastDims(c.b, g.dims(), mask.dims());
  const Dim n = elementsOf(c.b, dims);
  const Expr flat = reshapeTo(broadcastTo(mask, dims), {n});
  const int64_t size = staticDims(c.b, {elementsOf(c.b, resultDims(c))})[0];
  const Expr values = ops::select(flat, reshapeTo(broadcastTo(g, dims), {n}), 0.0);
  return reshapeTo(collected(c.b, flat, values, size), resultDims(c));
}

// The coordinates of the first `size` elements that are not 0.
ImportResults nonzeroStatic(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> dims = staticDims(c.b, x.dims());
  const int64_t size = c.integer("size"), rest = c.integer("fill_value", -1);
  const Dim n = elementsOf(c.b, x.dims());
  const Expr whole = reshapeTo(isBool(x.dtype()) ? x : ops::ne(x, 0), {n});
  Expr at = collected(c.b, whole, counted(c.b, n), size);
  const Expr total = ops::sum(whole.as(DType::I32), {.dims = std::vector<int64_t>{0}});
  const Expr valid = counted(c.b, Dim(size)) < total;
  std::vector<Expr> columns(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t width = std::max<int64_t>(dims[d], 1);
    columns[d] = withDim(ops::select(valid, at % width, rest), 1);
    at = at / width;
  }
  if (columns.empty()) return filled(c.b, c.result().dtype, resultDims(c), 0);
  return concatOf(c.b, columns, 1).as(c.result().dtype);
}

const ImportRow kRows[] = {
    {"aten.embedding_bag", embeddingBag},
    {"aten._embedding_bag", embeddingBag},
    {"aten._embedding_bag_forward_only", embeddingBag},
    {"aten.masked_scatter_backward", maskedScatterBackward},
    {"aten.nonzero_static", nonzeroStatic},
};

} // namespace
} // namespace aten::bags

ImportRows torchBagRows() { return aten::bags::kRows; }

} // namespace dtc
