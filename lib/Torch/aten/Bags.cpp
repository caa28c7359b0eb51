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
  int64_t count = 0, indices = 0;
  Expr member; // [bag, i]: index i belongs to the bag and counts
  Expr sizes;  // [bag, 1]: the number of those, i32
};

// The row that does not count; negative: none, except for the public op, which counts it from the end.
int64_t paddingRow(ImportContext& c) {
  const int64_t row = c.integer("padding_idx", -1);
  if (row >= 0 || !c.has("padding_idx") || !c.node.target.ends_with("embedding_bag.padding_idx")) return row;
  return row + staticDims(c.b, {c.tensor("weight").dims().at(0)})[0];
}

Bags bagsOf(ImportContext& c, Expr index, bool lastOffset) {
  if (!c.has("offsets") || index.rank() != 1) c.fail("has no offsets");
  const Expr offsets = c.tensor("offsets").as(DType::I32);
  if (offsets.rank() != 1) c.fail("has offsets that are not a list");
  const int64_t padding = paddingRow(c);
  Bags out;
  out.indices = staticDims(c.b, index.dims())[0];
  const int64_t given = staticDims(c.b, offsets.dims())[0], bags = lastOffset ? given - 1 : given;
  if (bags < 0) c.fail("has no offsets");
  out.count = bags;
  const Expr place = reshapeTo(counted(c.b, out.indices), {1, out.indices}),
             first = reshapeTo(sliceOf(offsets, 0, 0, bags), {bags, 1});
  Expr end = filled(c.b, DType::I32, {1}, static_cast<double>(out.indices));
  end = lastOffset  ? sliceOf(offsets, 0, 1, bags + 1)
        : bags == 0 ? sliceOf(end, 0, 0, 0)
                    : concatOf(c.b, {sliceOf(offsets, 0, 1, bags), end}, 0);
  Expr member = (place >= first) & (place < reshapeTo(end, {bags, 1}));
  if (padding >= 0) member = member & reshapeTo(ops::ne(index, padding), {1, out.indices});
  const std::vector<int64_t> one{1};
  out.member = member;
  out.sizes = ops::sum(member.as(DType::I32), {.dims = one, .keepdim = true});
  return out;
}

enum BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// The rows of each bag as [bag, i, column], -inf elsewhere.
Expr rowsOfBags(const Bags& bags, Expr picked) {
  const Dims dims{bags.count, bags.indices, picked.dims().at(1)};
  return ops::select(broadcastTo(withDim(bags.member, 2), dims), broadcastTo(withDim(picked, 0), dims),
                     -std::numeric_limits<double>::infinity());
}

Expr weightsOf(ImportContext& c, const Bags& bags, DType d, int64_t mode) {
  Expr in = bags.member.as(d);
  if (c.has("per_sample_weights"))
    in = in * reshapeTo(c.tensor("per_sample_weights").as(d), {1, bags.indices});
  return mode == kMean ? in / ops::max(bags.sizes, 1).as(d) : in;
}

// What the gradient reads beside the bags: the bag of each index, the sizes, and where a maximum is.
std::vector<Expr> bagsForGradient(ImportContext& c, const Bags& bags, Expr each, int64_t mode) {
  const std::vector<int64_t> one{1};
  std::vector<Expr> out;
  const auto shaped = [&](size_t i, Expr y) { // a result without elements where PyTorch does not need it
    const Dims& dims = resultDims(c, i);
    return dims == y.dims() ? y : filled(c.b, DType::I32, dims, 0);
  };
  const Expr number = reshapeTo(counted(c.b, bags.count), {bags.count, 1});
  const std::vector<int64_t> first{0};
  if (!c.declared(1)) return out;
  const Expr bag = ops::sum(ops::select(bags.member, number, 0), {.dims = first});
  out.push_back(shaped(1, bag));
  if (!c.declared(2)) return out;
  out.push_back(shaped(2, withoutDim(bags.sizes, 1)));
  if (!c.declared(3)) return out;
  if (mode != kMax) {
    out.push_back(shaped(3, withoutDim(bags.sizes, 1)));
    return out;
  }
  const Expr at = ops::argmax(each, {.dim = 1});
  const Expr index = c.tensor("indices").as(DType::I32);
  const Dim n = elementsOf(c.b, at.dims());
  const Expr row = reshapeTo(ops::index_select(index, reshapeTo(at, {n}), {.dim = 0}), at.dims());
  out.push_back(shaped(3, ops::select(broadcastTo(bags.sizes > 0, at.dims()), row, -1)));
  return out;
}

ImportResults embeddingBag(ImportContext& c) {
  const Expr table = c.tensor("weight"), index = c.tensor("indices");
  const int64_t mode = c.integer("mode", kSum);
  const Bags bags = bagsOf(c, index, c.flag("include_last_offset", false));
  const Expr picked = ops::embedding(indices(index, table.dims().at(0)), table);
  const std::vector<int64_t> one{1};
  Expr y, each;
  if (mode == kMax) {
    each = rowsOfBags(bags, picked);
    const Expr best = ops::max(each, ops::MaxArgs{.dims = one});
    y = ops::select(broadcastTo(bags.sizes > 0, best.dims()), best, 0.0);
  } else {
    y = ops::matmul(weightsOf(c, bags, table.dtype(), mode), picked);
  }
  std::vector<Expr> out{y};
  const std::vector<Expr> more = bagsForGradient(c, bags, each, mode);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// The gradient of the table. Of a maximum: at the rows that are.
ImportResults embeddingBagBackward(ImportContext& c) {
  const Expr g = c.tensor("grad"), index = c.tensor("indices");
  const int64_t mode = c.integer("mode", kSum);
  const Dims out = resultDims(c);
  const Expr zero = filled(c.b, g.dtype(), out, 0);
  Expr rows, at;
  if (mode == kMax) {
    const Expr place = c.tensor("maximum_indices").as(DType::I32);
    const Expr some = place >= 0;
    return ops::scatter(zero, ops::select(some, place, 0), ops::select(some, g, 0.0),
                        {.dim = 0, .reduce = "sum"});
  }
  const bool last = g.dims().at(0) != c.tensor("offsets").dims().at(0);
  const Bags bags = bagsOf(c, index, last);
  rows = ops::matmul(weightsOf(c, bags, g.dtype(), mode), g, {.transpose_a = true}); // [i, column]
  const Expr row = indices(index, out.at(0));
  if (c.flag("scale_grad_by_freq", false)) {
    const DType d = accumulationType(rows.dtype());
    rows = (rows.as(d) / withDim(occurrences(row, out.at(0)), 1).as(d)).as(g.dtype());
  }
  at = withDim(row, 1);
  return ops::scatter(zero, broadcastTo(at, rows.dims()), rows, {.dim = 0, .reduce = "sum"});
}

// The gradient of per_sample_weights: of a sum only.
ImportResults sampleWeightsBackward(ImportContext& c) {
  const Expr g = c.tensor("grad"), table = c.tensor("weight"), index = c.tensor("indices");
  const bool last = g.dims().at(0) != c.tensor("offsets").dims().at(0);
  const Bags bags = bagsOf(c, index, last);
  const Expr picked = ops::embedding(indices(index, table.dims().at(0)), table);
  const Expr own = ops::matmul(bags.member.as(g.dtype()), g, {.transpose_a = true});
  const std::vector<int64_t> one{1};
  return ops::sum(own * picked, {.dims = one});
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
    {"aten._embedding_bag_backward", embeddingBagBackward},
    {"aten._embedding_bag_per_sample_weights_backward", sampleWeightsBackward},
    {"aten.masked_scatter_backward", maskedScatterBackward},
    {"aten.nonzero_static", nonzeroStatic},
};

} // namespace
} // namespace aten::bags

ImportRows torchBagRows() { return aten::bags::kRows; }

} // namespace dtc
