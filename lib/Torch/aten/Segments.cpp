// Segments of rows, and histograms.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <cmath>
#include <limits>

namespace dtc {
namespace aten::segments {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// segment_reduce: `count` segments of the n elements of one dim; [batch, count, n, rest].
struct Segments {
  Expr member; // [batch, count, n, 1]
  Expr length; // [batch, count, 1], i32
  Expr data;   // [batch, n, rest]
  Dims parts;  // [batch, count, rest]
};

Segments segmentsOf(ImportContext& c) {
  const bool byLength = c.has("lengths");
  if (!byLength && !c.has("offsets")) c.fail("has neither lengths nor offsets");
  const Expr given = c.tensor(byLength ? "lengths" : "offsets").as(DType::I32), x = c.tensor("data");
  if (x.rank() == 0) c.fail("has an operand without dims");
  const size_t axis = static_cast<size_t>(dimOf(c.b, c.integer("axis", 0), x.rank()));
  if (given.rank() != axis + 1) c.fail("has segments of another rank than its axis");
  const Dims batch(x.dims().begin(), x.dims().begin() + static_cast<std::ptrdiff_t>(axis));
  const Dims rest(x.dims().begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims().end());
  const Dim n = x.dims().at(axis), b = elementsOf(c.b, batch), r = elementsOf(c.b, rest);
  const int64_t size = staticDims(c.b, {given.dims().back()})[0];
  if (!byLength && size == 0) c.fail("has no offsets");
  const int64_t count = byLength ? size : size - 1;
  const Expr flat = reshapeTo(given, {b, size});
  const Expr end = byLength ? ops::cumsum(flat, {.dim = 1}) : sliceOf(flat, 1, 1, size);
  const Expr length = byLength ? flat : end - sliceOf(flat, 1, 0, count);
  const Expr place = counted(c.b, n), last = reshapeTo(end, {b, count, 1}),
             wide = reshapeTo(length, {b, count, 1});
  const Expr member = (place < last) & (place >= last - wide);
  return {withDim(member, 3), wide, reshapeTo(x, {b, n, r}), {b, count, r}};
}

// Each segment's rows, and `other` elsewhere: [batch, count, n, rest].
Expr spread(const Segments& s, Expr rows, double other) {
  const Dims dims{s.parts[0], s.parts[1], s.data.dims().at(1), s.parts[2]};
  return ops::select(broadcastTo(s.member, dims), broadcastTo(withDim(rows, 1), dims), other);
}

ImportResults segmentReduce(ImportContext& c) {
  const Segments s = segmentsOf(c);
  const std::string how = c.text("reduce", "");
  const std::vector<int64_t> over{2};
  const bool given = c.has("initial");
  Expr y;
  if (how == "max" || how == "min") {
    const double none = how == "max" ? -kInfinity : kInfinity;
    const double start = c.real("initial", none);
    const Expr rows = spread(s, s.data, none);
    y = how == "max" ? ops::max(ops::max(rows, ops::MaxArgs{.dims = over}), start)
                     : ops::min(ops::min(rows, ops::MinArgs{.dims = over}), start);
  } else if (how == "prod") {
    y = ops::prod(spread(s, s.data, 1), {.dims = over}) * c.real("initial", 1);
  } else if (how == "sum" || how == "mean") {
    y = ops::sum(spread(s, s.data, 0), {.dims = over}) + c.real("initial", 0);
    if (how == "mean") {
      const Expr n = s.length.as(y.dtype());
      const Expr some = broadcastTo(n > 0.0, s.parts);
      y = ops::select(some, y / ops::max(n, 1.0), given ? y : y * 0.0 + kNan);
    }
  } else {
    c.fail("reduces by '" + how + "'");
  }
  return reshapeTo(y, resultDims(c));
}

// The product of the segment's other elements times `initial`, for each element.
Expr othersProduct(const Segments& s, double initial) {
  const std::vector<int64_t> over{2};
  const Expr x = spread(s, s.data, 1), zero = ops::eq(x, 0.0);
  const Expr zeros = ops::sum(zero.as(DType::I32), {.dims = over, .keepdim = true});
  const Expr rest = ops::prod(ops::select(zero, 1.0, x), {.dims = over, .keepdim = true}) * initial;
  const Expr other = ops::eq(zeros - zero.as(DType::I32), 0);
  return ops::select(other, broadcastTo(rest, x.dims()) / ops::select(zero, 1.0, x), 0.0);
}

ImportResults segmentReduceBackward(ImportContext& c) {
  const Segments s = segmentsOf(c);
  const std::string how = c.text("reduce", "");
  const Expr g = reshapeTo(c.tensor("grad"), s.parts), y = reshapeTo(c.tensor("output"), s.parts);
  const Dims wide{s.parts[0], s.parts[1], s.data.dims().at(1), s.parts[2]};
  const auto each = [&](Expr v) { return broadcastTo(withDim(v, 2), wide); };
  const std::vector<int64_t> over{2}, segments{1};
  Expr part;
  if (how == "sum") {
    part = each(g);
  } else if (how == "mean") {
    part = each(g / ops::max(s.length, 1).as(g.dtype()));
  } else if (how == "prod") {
    part = each(g) * othersProduct(s, c.real("initial", 1));
  } else if (how == "max" || how == "min") { // shared by the equal ones
    const Expr member = broadcastTo(s.member, wide);
    const Expr best = member & ops::eq(broadcastTo(withDim(s.data, 1), wide), each(y));
    const Expr n = ops::sum(best.as(g.dtype()), {.dims = over});
    part = ops::select(best, each(g / ops::max(n, 1.0)), 0.0);
  } else {
    c.fail("reduces by '" + how + "'");
  }
  const Expr own = ops::select(broadcastTo(s.member, wide), part, 0.0);
  return reshapeTo(ops::sum(own, {.dims = segments}), resultDims(c));
}

// --- histograms of elements or of points; the last bin includes its upper edge ---

constexpr int64_t kMostBins = 1 << 24;

// count + 1 edges from low to high, counted from the nearer end as torch.linspace does.
Expr edgesBetween(Builder& b, Expr low, Expr high, int64_t count, DType d) {
  const Expr i = counted(b, count + 1).as(d), step = (high - low) / static_cast<double>(count);
  const Expr up = low + step * i, down = high - step * (static_cast<double>(count) - i);
  return ops::select(i < static_cast<double>((count + 1) / 2), up, down);
}

Expr edgesOf(ImportContext& c, Expr values, int64_t count, const std::vector<double>& range) {
  if (count < 1 || count > kMostBins) c.fail("has " + std::to_string(count) + " bins");
  const DType d = values.dtype();
  Expr low, high;
  if (range.size() == 2) {
    low = filled(c.b, d, {}, range[0]), high = filled(c.b, d, {}, range[1]);
  } else if (values.dims().at(0) == Dim(0)) {
    low = filled(c.b, d, {}, 0), high = filled(c.b, d, {}, 1);
  } else {
    low = ops::min(values, ops::MinArgs{}), high = ops::max(values, ops::MaxArgs{});
  }
  const Expr same = ops::eq(low, high);
  const Expr below = low - 0.5, above = high + 0.5;
  return edgesBetween(c.b, ops::select(same, below, low), ops::select(same, above, high), count, d);
}

// The bin of each value; -1 outside.
Expr binsOf(Builder& b, Expr values, Expr edges) {
  const int64_t count = staticDims(b, edges.dims())[0] - 1;
  const std::vector<int64_t> over{1};
  const Expr below = ops::sum((edges <= withDim(values, 1)).as(DType::I32), {.dims = over});
  const Expr last = sliceOf(edges, 0, count, count + 1);
  return ops::select(values <= last, ops::min(below, count) - 1, -1);
}

Expr counts(ImportContext& c, Expr place, int64_t bins, DType d) {
  const Dim n = place.dims().at(0);
  const Expr weight = c.has("weight") ? reshapeTo(c.tensor("weight").as(d), {n}) : filled(c.b, d, {n}, 1);
  const Expr zero = filled(c.b, d, {Dim(bins + 1)}, 0), to = ops::select(place < 0, bins, place);
  return sliceOf(ops::scatter(zero, to, weight, {.dim = 0, .reduce = "sum"}), 0, 0, bins);
}

Expr widthsOf(Builder& b, Expr edges) {
  const int64_t count = staticDims(b, edges.dims())[0] - 1;
  return sliceOf(edges, 0, 1, count + 1) - sliceOf(edges, 0, 0, count);
}

// histogram, histogramdd: counts, then the edges of each dim.
ImportResults histogram(ImportContext& c) {
  const bool points = c.node.target.find("histogramdd") != std::string::npos;
  const Expr given = c.tensor("self"),
             one = points ? given : reshapeTo(given, {elementsOf(c.b, given.dims()), 1});
  if (one.rank() < 1) c.fail("has no points");
  const size_t k = static_cast<size_t>(staticDims(c.b, {one.dims().back()})[0]);
  const Dim n = elementsOf(c.b, Dims(one.dims().begin(), one.dims().end() - 1));
  const Expr x = reshapeTo(one, {n, static_cast<int64_t>(k)});
  const std::vector<double> range = c.has("range") ? c.reals("range") : std::vector<double>{};
  const bool tensors = c.is<std::vector<ImportValueRef>>("bins");
  std::vector<Expr> all, edges;
  if (tensors) all = c.tensors("bins");
  if (c.isTensor("bins")) all = {c.tensor("bins")};
  std::vector<int64_t> sizes = all.empty() ? c.ints("bins", {100}) : std::vector<int64_t>{};
  if (all.empty() && sizes.size() == 1) sizes.resize(k, sizes[0]);
  if ((all.empty() ? sizes.size() : all.size()) != k || k == 0)
    c.fail("has bins of other dims than its points");
  Expr place;
  int64_t bins = 1;
  Dims shape;
  for (size_t i = 0; i < k; ++i) {
    const Expr v = reshapeTo(sliceOf(x, 1, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1), {n});
    const std::vector<double> own =
        range.size() == 2 * k ? std::vector<double>{range[2 * i], range[2 * i + 1]} : std::vector<double>{};
    edges.push_back(all.empty() ? edgesOf(c, v, sizes[i], own) : all[i]);
    if (!edges[i].valid() || edges[i].rank() != 1) c.fail("has edges that are not a list");
    const int64_t count = staticDims(c.b, edges[i].dims())[0] - 1;
    if (count < 1 || count > kMostBins / bins) c.fail("has no bins, or too many");
    const Expr at = binsOf(c.b, v, edges[i]);
    place = !place.valid() ? at : ops::select((place < 0) | (at < 0), -1, place * count + at);
    bins *= count;
    shape.emplace_back(count);
  }
  Expr y = reshapeTo(counts(c, place, bins, x.dtype()), shape);
  if (c.flag("density", false)) {
    y = y / ops::sum(y);
    for (size_t i = 0; i < k; ++i) {
      Dims own(k, Dim(1));
      own[i] = shape[i];
      y = y / reshapeTo(widthsOf(c.b, edges[i]), own);
    }
  }
  std::vector<Expr> out{y};
  out.insert(out.end(), edges.begin(), edges.end());
  return out;
}

// --- tables ---

// Rows at the indices, scaled so that no norm is above the limit.
ImportResults embeddingRenorm(ImportContext& c) {
  const Expr table = c.tensor("self"), at = c.tensor("indices");
  const double limit = c.real("max_norm"), p = c.real("norm_type");
  const std::vector<int64_t> over{1};
  const Expr size = ops::abs(table);
  Expr norm;
  if (p == kInfinity)
    norm = ops::max(size, ops::MaxArgs{.dims = over, .keepdim = true});
  else if (p == 2)
    norm = ops::norm(table, {.dims = over, .keepdim = true});
  else
    norm = ops::pow(ops::sum(ops::pow(size, size.literal(p)), {.dims = over, .keepdim = true}), 1 / p);
  const Dim rows = table.dims().at(0), n = elementsOf(c.b, at.dims());
  const Expr used = ops::scatter(filled(c.b, DType::I32, {rows}, 0), indices(reshapeTo(at, {n}), rows),
                                 filled(c.b, DType::I32, {n}, 1), {.dim = 0, .reduce = "max"});
  const Expr scaled = (norm > limit) & (withDim(used, 1) > 0);
  return ops::select(broadcastTo(scaled, table.dims()), table * (limit / (norm + 1e-7)), table);
}

const ImportRow kRows[] = {
    {"aten.segment_reduce", segmentReduce},
    {"aten._segment_reduce_backward", segmentReduceBackward},
    {"aten.histogram", histogram},
    {"aten.histogramdd", histogram},
    {"aten.embedding_renorm", embeddingRenorm},
};

} // namespace
} // namespace aten::segments

ImportRows torchSegmentRows() { return aten::segments::kRows; }

} // namespace dtc
