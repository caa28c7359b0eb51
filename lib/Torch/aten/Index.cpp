// Lookups and updates by index tensors.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace dtc {
namespace aten::indexing {
namespace {

ImportResults embedding(ImportContext& c) {
  const Expr table = c.tensor("weight");
  return ops::embedding(indices(c.tensor("indices"), table.dims().at(0)), table);
}

ImportResults indexSelect(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Expr at = c.tensor("index");
  if (x.rank() == 0) return reshapeTo(x, resultDims(c));
  const int64_t d = aten::dim(c, "dim", x.rank());
  const Expr flat = reshapeTo(at, {elementsOf(c.b, at.dims())});
  return ops::index_select(x, indices(flat, x.dims().at(static_cast<size_t>(d))), {.dim = d});
}

ImportResults gather(ImportContext& c) {
  const Expr x = c.tensor("self"), at = c.tensor("index");
  if (at.rank() == 0 && x.rank() == 0) return x;
  if (std::ranges::find(at.dims(), Dim(0)) != at.dims().end())
    return filled(c.b, x.dtype(), resultDims(c), 0);
  const Expr wide = withRank(x, 1), index = withRank(at, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), wide.rank());
  Expr source = wide; // its other dims may be larger than those of the index
  for (size_t i = 0; i < index.rank(); ++i)
    if (static_cast<int64_t>(i) != d)
      source = sliceOf(source, static_cast<int64_t>(i), 0, index.dims().at(i));
  const Expr y = ops::gather(source, indices(index, wide.dims().at(static_cast<size_t>(d))), {.dim = d});
  return reshapeTo(y, resultDims(c));
}

ImportResults takeAlongDim(ImportContext& c) {
  const Expr x = c.tensor("self"), at = c.tensor("indices");
  if (!c.has("dim")) {
    const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
    const Expr index = reshapeTo(at, {elementsOf(c.b, at.dims())});
    return reshapeTo(ops::gather(flat, indices(index, flat.dims().at(0)), {.dim = 0}), resultDims(c));
  }
  const int64_t d = aten::dim(c, "dim", x.rank());
  Dims own = broadcastDims(
      c.b,
      [&] {
        Dims dims = x.dims();
        dims[static_cast<size_t>(d)] = 1;
        return dims;
      }(),
      [&] {
        Dims dims = at.dims();
        dims[static_cast<size_t>(d)] = 1;
        return dims;
      }());
  Dims of = own, to = own;
  of[static_cast<size_t>(d)] = x.dims().at(static_cast<size_t>(d));
  to[static_cast<size_t>(d)] = at.dims().at(static_cast<size_t>(d));
  return ops::gather(broadcastTo(x, of), broadcastTo(indices(at, of[static_cast<size_t>(d)]), to),
                     {.dim = d});
}

ImportResults take(ImportContext& c) {
  const Expr x = c.tensor("self"), at = c.tensor("index");
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const Expr index = reshapeTo(at, {elementsOf(c.b, at.dims())});
  return reshapeTo(ops::index_select(flat, indices(index, flat.dims().at(0)), {.dim = 0}), resultDims(c));
}

// --- x[i, :, j] ---

struct Subscript {
  std::vector<size_t> dims; // of x, that have an index
  std::vector<Expr> at;     // i32, wrapped, of one shape
  Dims shape;               // that one
};

Subscript subscript(ImportContext& c, Expr x, bool acceptsMask) {
  Subscript s;
  std::vector<Expr> given = c.tensors("indices");
  if (given.size() > x.rank()) c.fail("has more indices than its operand has dims");
  std::vector<Expr> raw;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].valid()) continue;
    if (isBool(given[i].dtype()) && !acceptsMask)
      c.fail("selects by a mask, whose number of results depends on data: write it with torch.where");
    s.dims.push_back(i);
    raw.push_back(given[i]);
    s.shape = broadcastDims(c.b, s.shape, given[i].dims());
  }
  for (size_t i = 0; i < raw.size(); ++i)
    s.at.push_back(broadcastTo(indices(raw[i], x.dims().at(s.dims[i])), s.shape));
  return s;
}

// All index vectors, in a last dim.
Expr vectorsOf(ImportContext& c, const Subscript& s) {
  const auto last = static_cast<int64_t>(s.shape.size());
  std::vector<Expr> parts;
  for (const Expr& i : s.at) parts.push_back(withDim(i, last));
  return concatOf(c.b, parts, last);
}

std::vector<int64_t> signedDims(const std::vector<size_t>& dims) { return {dims.begin(), dims.end()}; }

// The indexed dims are replaced by those of the indices: in place if they are adjacent, else in front.
ImportResults index(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Subscript s = subscript(c, x, false);
  if (s.dims.empty()) return x;
  const size_t first = s.dims.front(), k = s.shape.size();
  const bool adjacent = s.dims.back() - first + 1 == s.dims.size();
  if (s.dims.size() == 1) {
    const auto d = static_cast<int64_t>(first);
    const Expr flat = reshapeTo(s.at[0], {elementsOf(c.b, s.shape)});
    return reshapeTo(ops::index_select(x, flat, {.dim = d}), resultDims(c));
  }
  const size_t at = adjacent ? first : 0, rest = x.rank() - s.dims.size();
  std::vector<int64_t> offset;
  for (size_t i = 0; i < rest; ++i) offset.push_back(static_cast<int64_t>(i < at ? i : i + k));
  Dims sizes = x.dims();
  for (size_t d : s.dims) sizes[d] = 1;
  const std::vector<int64_t> own = signedDims(s.dims);
  return ops::gather_slices(x, vectorsOf(c, s),
                            {.offset_dims = offset,
                             .collapsed_slice_dims = own,
                             .start_index_map = own,
                             .index_vector_dim = static_cast<int64_t>(k),
                             .slice_sizes = sizes});
}

// A change of x by updates, as in f(x, updates, reduce). Booleans: a sum is "or", a product "and".
Expr reducedInto(Expr x, Expr updates, std::string_view reduce,
                 const std::function<Expr(Expr, Expr, std::string_view)>& f) {
  if (!isBool(x.dtype())) return f(x, updates, reduce);
  const std::string_view order = reduce == "sum" ? "max" : reduce == "prod" ? "min" : reduce;
  return f(x.as(DType::U8), updates.as(DType::U8), order).as(DType::Bool);
}

// x[mask] = one value for all.
Expr maskedPut(Expr x, Expr mask, Expr value, bool accumulate) {
  Dims dims = mask.dims();
  while (dims.size() < x.rank()) dims.emplace_back(1);
  const Expr wide = broadcastTo(reshapeTo(mask, dims), x.dims());
  const Expr one = broadcastTo(value, x.dims());
  const Expr sum = !accumulate ? one : isBool(x.dtype()) ? x | one : x + one;
  return ops::select(wide, sum, x);
}

ImportResults indexPut(ImportContext& c) {
  const Expr x = c.tensor("self"), values = c.tensor("values").as(x.dtype());
  const bool accumulate = c.flag("accumulate", false);
  const std::vector<Expr> given = c.tensors("indices");
  const auto masks = std::ranges::count_if(given, [](Expr e) { return e.valid() && isBool(e.dtype()); });
  if (masks > 0) {
    const bool single =
        values.rank() == 0 || std::ranges::all_of(values.dims(), [](Dim d) { return d == Dim(1); });
    if (given.size() != 1 || !single)
      c.fail("assigns by a mask and more than one value, whose places depend on data: write it with "
             "torch.where");
    return maskedPut(x, given[0], reshapeTo(values, {}), accumulate);
  }
  const Subscript s = subscript(c, x, false);
  if (s.dims.empty())
    return !accumulate ? broadcastTo(values, x.dims()) : isBool(x.dtype()) ? x | values : x + values;
  // The indexed dims in front.
  std::vector<int64_t> perm = signedDims(s.dims), back(x.rank());
  for (int64_t d : allDims(x.rank()))
    if (std::ranges::find(s.dims, static_cast<size_t>(d)) == s.dims.end()) perm.push_back(d);
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  const Expr y = permuted(x, perm);
  const size_t n = s.dims.size(), k = s.shape.size();
  Dims updates = s.shape;
  updates.insert(updates.end(), y.dims().begin() + static_cast<std::ptrdiff_t>(n), y.dims().end());
  Expr source = values;
  const bool adjacent = s.dims.back() - s.dims.front() + 1 == n;
  const size_t first = s.dims.front();
  if (adjacent && first > 0 && values.rank() > 0) { // values have the dims before the indices in front
    Dims natural(x.dims().begin(), x.dims().begin() + static_cast<std::ptrdiff_t>(first));
    natural.insert(natural.end(), s.shape.begin(), s.shape.end());
    natural.insert(natural.end(), x.dims().begin() + static_cast<std::ptrdiff_t>(first + n), x.dims().end());
    std::vector<int64_t> order;
    for (size_t i = 0; i < k; ++i) order.push_back(static_cast<int64_t>(first + i));
    for (size_t i = 0; i < natural.size(); ++i)
      if (i < first || i >= first + k) order.push_back(static_cast<int64_t>(i));
    source = permuted(broadcastTo(values, natural), order);
  }
  const std::vector<int64_t> window = allDims(updates.size(), k), inserted = allDims(n);
  const Expr at = vectorsOf(c, s);
  const auto scatter = [&](Expr to, Expr from, std::string_view reduce) {
    return ops::scatter_slices(to, at, from, ops::Values({}),
                               {.update_window_dims = window,
                                .inserted_window_dims = inserted,
                                .scatter_dims_to_operand_dims = inserted,
                                .index_vector_dim = static_cast<int64_t>(k),
                                .reduce = reduce});
  };
  const Expr out = reducedInto(y, broadcastTo(source, updates), accumulate ? "sum" : "set", scatter);
  return permuted(out, back);
}

// --- scatter ---

const char* reduceName(ImportContext& c, const std::string& name) {
  for (const auto& [torch, own] : {std::pair{"sum", "sum"},
                                   {"add", "sum"},
                                   {"prod", "prod"},
                                   {"multiply", "prod"},
                                   {"amax", "max"},
                                   {"amin", "min"}})
    if (name == torch) return own;
  c.fail("has the reduction '" + name + "'");
}

// The updates at their indices. An index that is smaller than x in other dims updates a part of it.
Expr scattered(Expr x, Expr at, Expr updates, int64_t d, const char* reduce) {
  const auto axis = static_cast<size_t>(d);
  Dims part = at.dims();
  part[axis] = x.dims().at(axis);
  const Expr i = indices(at, x.dims().at(axis));
  for (size_t k = 0; k < at.rank(); ++k) // the updates may be larger than the index
    updates = sliceOf(updates, static_cast<int64_t>(k), 0, at.dims().at(k));
  const auto scatter = [&](Expr to, Expr from, std::string_view how) {
    return ops::scatter(to, i, from, {.dim = d, .reduce = how});
  };
  if (part == x.dims()) return reducedInto(x, updates, reduce, scatter);
  Expr inner = x;
  for (size_t k = 0; k < x.rank(); ++k) inner = sliceOf(inner, static_cast<int64_t>(k), 0, part[k]);
  const Expr changed = reducedInto(inner, updates, reduce, scatter);
  std::vector<ops::Arg> starts(x.rank(), ops::Arg(int64_t(0)));
  return ops::dynamic_update_slice(x, changed, starts);
}

ImportResults scatter(ImportContext& c) {
  const Expr given = c.tensor("self"), index = c.tensor("index");
  const Expr x = withRank(given, 1), at = withRank(index, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  Expr updates;
  if (c.isTensor("src"))
    updates = withRank(c.tensor("src").as(x.dtype()), 1);
  else
    updates = broadcastTo(tensorOf(in(c, c.has("value") ? "value" : "src", x.dtype())), at.dims());
  const bool adds = c.node.target.find("scatter_add") != std::string::npos;
  const char* reduce = adds ? "sum" : c.has("reduce") ? reduceName(c, c.text("reduce", "")) : "set";
  return reshapeTo(scattered(x, at, updates, d, reduce), given.dims());
}

// scatter_reduce: `include_self` false starts from the reduction's identity where there are updates.
ImportResults scatterReduce(ImportContext& c) {
  const Expr given = c.tensor("self");
  const Expr x = withRank(given, 1), at = withRank(c.tensor("index"), 1),
             u = withRank(c.tensor("src").as(x.dtype()), 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  const std::string name = c.text("reduce", "");
  const bool mean = name == "mean", self = c.flag("include_self", true);
  const char* reduce = mean ? "sum" : reduceName(c, name);
  const Expr ones = filled(c.b, DType::I32, at.dims(), 1), zeros = filled(c.b, DType::I32, x.dims(), 0);
  Expr start = x, touched;
  if (!self || mean) touched = scattered(zeros, at, ones, d, "sum");
  if (!self) start = ops::select(touched > 0, neutralOf(c, name, x.dtype()), x);
  Expr y = scattered(start, at, u, d, reduce);
  if (mean) {
    const Expr count = touched + (self ? 1 : 0);
    const Expr n = ops::max(count, 1).as(x.dtype());
    y = isFloat(x.dtype()) ? y / n : ops::floor_div(y, n);
  }
  return reshapeTo(y, given.dims());
}

// index_add, index_copy, index_fill, index_reduce: whole slices along one dim.
Expr sliceUpdates(ImportContext& c, Expr x, Expr at, Expr updates, int64_t d, const char* reduce) {
  Builder& b = c.b;
  const Expr flat = reshapeTo(at, {elementsOf(b, at.dims())});
  Dims dims(x.rank(), Dim(1));
  dims[static_cast<size_t>(d)] = flat.dims().at(0);
  Dims wide = x.dims();
  wide[static_cast<size_t>(d)] = flat.dims().at(0);
  const Expr i = broadcastTo(reshapeTo(indices(flat, x.dims().at(static_cast<size_t>(d))), dims), wide);
  return reducedInto(x, broadcastTo(updates, wide), reduce, [&](Expr to, Expr from, std::string_view how) {
    return ops::scatter(to, i, from, {.dim = d, .reduce = how});
  });
}

ImportResults indexAdd(ImportContext& c) {
  const Expr given = c.tensor("self"), x = withRank(given, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  Expr u = withRank(c.tensor("source").as(x.dtype()), 1);
  if (c.has("alpha")) {
    const Expr alpha = in(c, "alpha", x.dtype());
    u = isBool(x.dtype()) ? u & alpha : u * alpha;
  }
  return reshapeTo(sliceUpdates(c, x, c.tensor("index"), u, d, "sum"), given.dims());
}

ImportResults indexCopy(ImportContext& c) {
  const Expr given = c.tensor("self"), x = withRank(given, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  const Expr u = withRank(c.tensor("source").as(x.dtype()), 1);
  return reshapeTo(sliceUpdates(c, x, c.tensor("index"), u, d, "set"), given.dims());
}

ImportResults indexFill(ImportContext& c) {
  const Expr given = c.tensor("self"), x = withRank(given, 1);
  const int64_t d = dimOf(c.b, c.integer("dim"), x.rank());
  const Expr u = reshapeTo(tensorOf(in(c, "value", x.dtype())), {});
  return reshapeTo(sliceUpdates(c, x, c.tensor("index"), u, d, "set"), given.dims());
}

ImportResults put(ImportContext& c) {
  const Expr x = c.tensor("self"), at = c.tensor("index"), u = c.tensor("source").as(x.dtype());
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const Expr i = indices(reshapeTo(at, {elementsOf(c.b, at.dims())}), flat.dims().at(0));
  const Expr y = reducedInto(flat, reshapeTo(u, i.dims()), c.flag("accumulate", false) ? "sum" : "set",
                             [&](Expr to, Expr from, std::string_view how) {
                               return ops::scatter(to, i, from, {.dim = 0, .reduce = how});
                             });
  return reshapeTo(y, x.dims());
}

// The i-th true element of the mask takes the i-th of the source.
ImportResults maskedScatter(ImportContext& c) {
  const Expr given = c.tensor("self"), source = c.tensor("source").as(given.dtype());
  const Expr x = broadcastTo(given, resultDims(c)), mask = broadcastTo(c.tensor("mask"), x.dims());
  const Expr flat = reshapeTo(mask, {elementsOf(c.b, x.dims())});
  const Expr rank = ops::cumsum(flat.as(DType::I32), {.dim = 0, .exclusive = true});
  const Expr from = reshapeTo(source, {elementsOf(c.b, source.dims())});
  const Expr taken = ops::index_select(from, rank, {.dim = 0});
  return ops::select(mask, reshapeTo(taken, x.dims()), x);
}

ImportResults oneHot(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t n = c.integer("num_classes", -1);
  if (n < 0) c.fail("has no num_classes, whose default depends on data");
  return ops::one_hot(x.as(DType::I32), {.depth = n, .dtype = c.result().dtype});
}

const ImportRow kRows[] = {
    {"aten.embedding", embedding},
    {"aten.index_select", indexSelect},
    {"aten.gather", gather},
    {"aten.take_along_dim", takeAlongDim},
    {"aten.take", take},
    {"aten.index", index},
    {"aten._unsafe_index", index},
    {"aten.index_put", indexPut},
    {"aten._unsafe_index_put", indexPut},
    {"aten._index_put_impl", indexPut},
    {"aten.scatter", scatter},
    {"aten.scatter_add", scatter},
    {"aten.scatter_reduce", scatterReduce},
    {"aten.index_add", indexAdd},
    {"aten.index_copy", indexCopy},
    {"aten.index_fill", indexFill},
    {"aten.put", put},
    {"aten.masked_scatter", maskedScatter},
    {"aten.one_hot", oneHot},
};

} // namespace
} // namespace aten::indexing

ImportRows torchIndexRows() { return aten::indexing::kRows; }

} // namespace dtc
